package verify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestProxyIsANativeSidecar(t *testing.T) {
	checkSidecar(t, overlay(t, "sidecar"))
}

// checkSidecar holds what makes the proxy a sidecar, of kustomize and Helm alike.
func checkSidecar(t *testing.T, objects []runtime.Object) {
	t.Helper()
	deployment, configuration := only[*appsv1.Deployment](t, objects), only[*corev1.ConfigMap](t, objects)
	pod := deployment.Spec.Template.Spec
	require.Len(t, pod.InitContainers, 1)
	sidecar := pod.InitContainers[0]
	assert.Equal(t, "qosproxy", sidecar.Name)
	require.NotNil(t, sidecar.RestartPolicy)
	assert.Equal(t, corev1.ContainerRestartPolicyAlways, *sidecar.RestartPolicy)
	assert.Nil(t, sidecar.Lifecycle, "the application is gone before it is stopped")

	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	require.NoError(t, err)
	assert.False(t, selector.Empty())
	assert.True(t, selector.Matches(labels.Set(deployment.Spec.Template.Labels)))

	c := parse(t, configuration.Data["qosproxy.yaml"])
	assert.Equal(t, "unix:///run/qosproxy/grpc.sock", c.Listen["grpc"])
	delay, err := time.ParseDuration(c.Shutdown.Delay)
	require.NoError(t, err)
	assert.Zero(t, delay)
	// What is left of the drain is shutdown.timeout, 30 s.
	require.NotNil(t, pod.TerminationGracePeriodSeconds)
	assert.Greater(t, *pod.TerminationGracePeriodSeconds, int64(30))

	// The application shares the socket, whose group is every container's.
	sockets := map[string]bool{}
	for _, v := range pod.Volumes {
		sockets[v.Name] = v.EmptyDir != nil
		if v.ConfigMap != nil {
			assert.Equal(t, configuration.Name, v.ConfigMap.Name)
		}
	}
	require.Len(t, pod.Containers, 1)
	for _, container := range append(pod.Containers, pod.InitContainers...) {
		shares := false
		for _, m := range container.VolumeMounts {
			if m.MountPath == "/run/qosproxy" {
				shares = sockets[m.Name] && !m.ReadOnly
			}
		}
		assert.True(t, shares, container.Name)
	}
	require.NotNil(t, pod.SecurityContext)
	require.NotNil(t, pod.SecurityContext.FSGroup)
}
