package verify

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestStandaloneFitsTogether(t *testing.T) {
	objects := overlay(t, "standalone")
	assert.Len(t, objects, 7, "and nothing else")
	checkStandalone(t, objects)
}

// checkStandalone holds what a deployment of its own promises, of kustomize and Helm
// alike.
func checkStandalone(t *testing.T, objects []runtime.Object) {
	t.Helper()
	checkSelectors(t, objects)
	checkPorts(t, objects)
	checkScaling(t, objects)
	checkEnd(t, objects)
}

// checkSelectors holds that everything that selects pods selects those of the
// deployment.
func checkSelectors(t *testing.T, objects []runtime.Object) {
	t.Helper()
	deployment := only[*appsv1.Deployment](t, objects)
	pod := labels.Set(deployment.Spec.Template.Labels)
	selectors := []*metav1.LabelSelector{
		deployment.Spec.Selector, only[*policyv1.PodDisruptionBudget](t, objects).Spec.Selector,
		&only[*networkingv1.NetworkPolicy](t, objects).Spec.PodSelector,
	}
	spread := deployment.Spec.Template.Spec.TopologySpreadConstraints
	require.Len(t, spread, 2)
	for _, c := range spread {
		selectors = append(selectors, c.LabelSelector)
	}
	for _, service := range all[*corev1.Service](objects) {
		selectors = append(selectors, &metav1.LabelSelector{MatchLabels: service.Spec.Selector})
	}
	for _, of := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(of)
		require.NoError(t, err)
		assert.False(t, selector.Empty())
		assert.True(t, selector.Matches(pod), selector.String())
	}
	assert.Equal(t, autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment.Name},
		only[*autoscalingv2.HorizontalPodAutoscaler](t, objects).Spec.ScaleTargetRef)
}

// checkPorts holds that every port that is named is one.
func checkPorts(t *testing.T, objects []runtime.Object) {
	t.Helper()
	ports := map[string]int32{}
	for _, p := range proxyOf(t, only[*appsv1.Deployment](t, objects).Spec.Template.Spec).Ports {
		ports[p.Name] = p.ContainerPort
	}
	require.Len(t, ports, 3)
	headless := 0
	for _, service := range all[*corev1.Service](objects) {
		for _, p := range service.Spec.Ports {
			assert.Contains(t, ports, p.TargetPort.String())
			if p.Name == "grpc" {
				headless++
				assert.Equal(t, corev1.ClusterIPNone, service.Spec.ClusterIP, "gRPC balances by itself")
				assert.Equal(t, ports["grpc"], p.Port, "a headless service translates no port")
			}
		}
	}
	assert.Equal(t, 1, headless)
	for _, rule := range only[*networkingv1.NetworkPolicy](t, objects).Spec.Ingress {
		assert.NotEmpty(t, rule.From, "nobody is let in from everywhere")
		for _, p := range rule.Ports {
			require.Equal(t, intstr.String, p.Port.Type)
			assert.Contains(t, ports, p.Port.String())
		}
	}
}

func checkScaling(t *testing.T, objects []runtime.Object) {
	t.Helper()
	deployment, scaler := only[*appsv1.Deployment](t, objects), only[*autoscalingv2.HorizontalPodAutoscaler](t, objects)
	assert.Nil(t, deployment.Spec.Replicas, "the autoscaler's")
	require.NotNil(t, scaler.Spec.MinReplicas)
	assert.Greater(t, *scaler.Spec.MinReplicas, int32(only[*policyv1.PodDisruptionBudget](t, objects).Spec.MaxUnavailable.IntValue()))
	container := proxyOf(t, deployment.Spec.Template.Spec)
	eviction := only[*policyv1.PodDisruptionBudget](t, objects).Spec.UnhealthyPodEvictionPolicy
	require.NotNil(t, eviction)
	assert.Equal(t, policyv1.AlwaysAllow, *eviction, "what serves nobody holds up no drain")
	assert.Positive(t, container.Resources.Requests.Cpu().MilliValue(), "utilization is relative to it")
}

// checkEnd holds that a proxy has time for its drain: preStop, then shutdown.delay
// and shutdown.timeout, 5 s and 30 s by default.
func checkEnd(t *testing.T, objects []runtime.Object) {
	t.Helper()
	pod := only[*appsv1.Deployment](t, objects).Spec.Template.Spec
	lifecycle := proxyOf(t, pod).Lifecycle
	require.NotNil(t, lifecycle)
	require.NotNil(t, lifecycle.PreStop)
	require.NotNil(t, lifecycle.PreStop.Sleep, "the image has no program for a wait")
	assert.Positive(t, lifecycle.PreStop.Sleep.Seconds)
	require.NotNil(t, pod.TerminationGracePeriodSeconds)
	assert.Greater(t, *pod.TerminationGracePeriodSeconds, lifecycle.PreStop.Sleep.Seconds+5+30)
}
