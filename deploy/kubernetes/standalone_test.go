package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
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
	"k8s.io/apimachinery/pkg/util/intstr"
)

// standalone is the objects of standalone.yaml by what they are.
type standalone struct {
	config     *corev1.ConfigMap
	deployment *appsv1.Deployment
	services   []*corev1.Service
	scaler     *autoscalingv2.HorizontalPodAutoscaler
	disruption *policyv1.PodDisruptionBudget
	network    *networkingv1.NetworkPolicy
}

func readStandalone(t *testing.T) *standalone {
	t.Helper()
	manifests, err := os.ReadFile("standalone.yaml")
	require.NoError(t, err)
	objects, err := decode(t, manifests)
	require.NoError(t, err)
	var s standalone
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.ConfigMap:
			s.config = o
		case *appsv1.Deployment:
			s.deployment = o
		case *corev1.Service:
			s.services = append(s.services, o)
		case *autoscalingv2.HorizontalPodAutoscaler:
			s.scaler = o
		case *policyv1.PodDisruptionBudget:
			s.disruption = o
		case *networkingv1.NetworkPolicy:
			s.network = o
		}
	}
	require.Len(t, objects, 5+len(s.services), "one of each, and the services")
	return &s
}

func (s *standalone) proxy(t *testing.T) corev1.Container {
	t.Helper()
	require.Len(t, s.deployment.Spec.Template.Spec.Containers, 1)
	return s.deployment.Spec.Template.Spec.Containers[0]
}

// TestSelectorsFindTheProxies holds that everything that selects pods selects those
// of the deployment.
func TestSelectorsFindTheProxies(t *testing.T) {
	s := readStandalone(t)
	pod := labels.Set(s.deployment.Spec.Template.Labels)
	selectors := []*metav1.LabelSelector{s.deployment.Spec.Selector, s.disruption.Spec.Selector, &s.network.Spec.PodSelector}
	for _, c := range s.deployment.Spec.Template.Spec.TopologySpreadConstraints {
		selectors = append(selectors, c.LabelSelector)
	}
	require.Len(t, s.services, 2)
	for _, service := range s.services {
		selectors = append(selectors, &metav1.LabelSelector{MatchLabels: service.Spec.Selector})
	}
	for _, of := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(of)
		require.NoError(t, err)
		assert.False(t, selector.Empty())
		assert.True(t, selector.Matches(pod), selector.String())
	}
	assert.Equal(t, autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: s.deployment.Name},
		s.scaler.Spec.ScaleTargetRef)
}

// TestPortsAreTheContainers holds that every port that is named is one.
func TestPortsAreTheContainers(t *testing.T) {
	s := readStandalone(t)
	ports := map[string]int32{}
	for _, p := range s.proxy(t).Ports {
		ports[p.Name] = p.ContainerPort
	}
	assert.Equal(t, map[string]int32{"grpc": 50051, "http": 8080, "admin": 8081}, ports)
	for _, service := range s.services {
		for _, p := range service.Spec.Ports {
			assert.Contains(t, ports, p.TargetPort.String())
		}
	}
	for _, rule := range s.network.Spec.Ingress {
		assert.NotEmpty(t, rule.From, "nobody is let in from everywhere")
		for _, p := range rule.Ports {
			require.Equal(t, intstr.String, p.Port.Type)
			assert.Contains(t, ports, p.Port.String())
		}
	}
	assert.Equal(t, corev1.ClusterIPNone, s.services[0].Spec.ClusterIP, "gRPC balances by itself")
}

func TestScalingLeavesRoom(t *testing.T) {
	s := readStandalone(t)
	assert.Nil(t, s.deployment.Spec.Replicas, "the autoscaler's")
	require.NotNil(t, s.scaler.Spec.MinReplicas)
	assert.Greater(t, *s.scaler.Spec.MinReplicas, int32(s.disruption.Spec.MaxUnavailable.IntValue()))
	proxy := s.proxy(t)
	assert.NotContains(t, proxy.Resources.Limits, corev1.ResourceCPU, "throttling is latency")
	assert.Positive(t, proxy.Resources.Requests.Cpu().MilliValue(), "utilization is relative to it")
	assert.Positive(t, proxy.Resources.Limits.Memory().Value())
}

func TestStandaloneIsConfinedAndProbedAsTheSidecar(t *testing.T) {
	_, deployment := sidecar(t)
	aside, alone := deployment.Spec.Template.Spec.InitContainers[0], readStandalone(t).proxy(t)
	assert.Equal(t, aside.SecurityContext, alone.SecurityContext)
	assert.Equal(t, aside.StartupProbe, alone.StartupProbe)
	assert.Equal(t, aside.ReadinessProbe, alone.ReadinessProbe)
	assert.Equal(t, aside.LivenessProbe, alone.LivenessProbe)
	assert.Equal(t, aside.Env, alone.Env)
	assert.Equal(t, aside.Args, alone.Args)
}

func TestStandaloneTakesItsConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "qosproxy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(readStandalone(t).config.Data["qosproxy.yaml"]), 0o600))
	check := exec.CommandContext(t.Context(), "go", "run", "./cmd/qosproxy", "config", "check", file)
	check.Dir = "../.."
	check.Env = append(os.Environ(), "QOSPROXY_CASSANDRA_LOCAL_RACK=")
	out, err := check.CombinedOutput()
	assert.NoError(t, err, "%s", out)
}
