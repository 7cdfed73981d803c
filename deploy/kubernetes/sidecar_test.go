package kubernetes

import (
	"bufio"
	"bytes"
	"errors"
	"io"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// decode reads manifests as an API server with fieldValidation=Strict does: an
// unknown, misspelt or repeated field is an error.
func decode(t *testing.T, manifests []byte) ([]runtime.Object, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, autoscalingv2.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		require.NoError(t, err)
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}

// sidecar returns the two objects of sidecar.yaml.
func sidecar(t *testing.T) (*corev1.ConfigMap, *appsv1.Deployment) {
	t.Helper()
	manifests, err := os.ReadFile("sidecar.yaml")
	require.NoError(t, err)
	objects, err := decode(t, manifests)
	require.NoError(t, err)
	require.Len(t, objects, 2)
	require.IsType(t, &corev1.ConfigMap{}, objects[0])
	require.IsType(t, &appsv1.Deployment{}, objects[1])
	return objects[0].(*corev1.ConfigMap), objects[1].(*appsv1.Deployment)
}

func TestDecodingIsStrict(t *testing.T) {
	for name, manifest := range map[string]string{
		"unknown field":  "{apiVersion: v1, kind: Pod, spec: {container: []}}",
		"field's case":   "{apiVersion: v1, kind: Pod, spec: {initcontainers: []}}",
		"repeated field": "apiVersion: v1\nkind: Pod\nkind: Pod\n",
		"wrong type":     "{apiVersion: v1, kind: Pod, spec: {containers: [{name: 1}]}}",
		"unknown kind":   "{apiVersion: v1, kind: Pot}",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decode(t, []byte(manifest))
			assert.Error(t, err)
		})
	}
}

func TestProxyIsANativeSidecar(t *testing.T) {
	_, deployment := sidecar(t)
	pod := deployment.Spec.Template.Spec
	require.Len(t, pod.InitContainers, 1)
	proxy := pod.InitContainers[0]
	require.NotNil(t, proxy.RestartPolicy)
	assert.Equal(t, corev1.ContainerRestartPolicyAlways, *proxy.RestartPolicy)

	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	require.NoError(t, err)
	assert.True(t, selector.Matches(labels.Set(deployment.Spec.Template.Labels)))

	// The drain is shutdown.delay and shutdown.timeout, 5 s and 30 s.
	require.NotNil(t, pod.TerminationGracePeriodSeconds)
	assert.Greater(t, *pod.TerminationGracePeriodSeconds, int64(35))
}

func TestProxyIsConfined(t *testing.T) {
	_, deployment := sidecar(t)
	proxy := deployment.Spec.Template.Spec.InitContainers[0]
	yes, no, user := true, false, int64(65532)
	assert.Equal(t, &corev1.SecurityContext{
		RunAsNonRoot:             &yes,
		RunAsUser:                &user,
		ReadOnlyRootFilesystem:   &yes,
		AllowPrivilegeEscalation: &no,
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}, proxy.SecurityContext)

	limit := proxy.Resources.Limits.Memory()
	assert.Positive(t, limit.Value())
	assert.LessOrEqual(t, proxy.Resources.Requests.Memory().Value(), limit.Value())
	for _, e := range proxy.Env {
		assert.NotEqual(t, "GOMEMLIMIT", e.Name, "the proxy takes it from the limit, with room for what Go does not count")
	}
}

func TestProbesAskTheAdminListener(t *testing.T) {
	_, deployment := sidecar(t)
	proxy := deployment.Spec.Template.Spec.InitContainers[0]
	assert.Equal(t, []corev1.ContainerPort{{Name: "admin", ContainerPort: 8081}}, proxy.Ports)
	for path, probes := range map[string][]*corev1.Probe{
		"/livez":  {proxy.StartupProbe, proxy.LivenessProbe},
		"/readyz": {proxy.ReadinessProbe},
	} {
		for _, p := range probes {
			require.NotNil(t, p)
			require.NotNil(t, p.HTTPGet)
			assert.Equal(t, path, p.HTTPGet.Path)
			assert.Equal(t, "admin", p.HTTPGet.Port.String())
		}
	}
}

// TestApplicationSharesTheSocket also holds that every mount has its volume.
func TestApplicationSharesTheSocket(t *testing.T) {
	config, deployment := sidecar(t)
	pod := deployment.Spec.Template.Spec
	volumes := make(map[string]corev1.VolumeSource)
	for _, v := range pod.Volumes {
		volumes[v.Name] = v.VolumeSource
	}
	for _, c := range append(pod.Containers, pod.InitContainers...) {
		shares := false
		for _, m := range c.VolumeMounts {
			require.Contains(t, volumes, m.Name)
			if m.MountPath == "/run/qosproxy" {
				shares = true
				assert.False(t, m.ReadOnly)
				assert.NotNil(t, volumes[m.Name].EmptyDir)
			}
		}
		assert.True(t, shares, c.Name)
	}
	require.NotNil(t, volumes["config"].ConfigMap)
	assert.Equal(t, config.Name, volumes["config"].ConfigMap.Name)
	// The socket has mode 0660: its group is every container's.
	require.NotNil(t, pod.SecurityContext)
	require.NotNil(t, pod.SecurityContext.FSGroup)
}

// TestProxyTakesItsConfiguration checks the file by the proxy itself, on a node
// that has no zone; only the socket is elsewhere, where there is a folder for it.
func TestProxyTakesItsConfiguration(t *testing.T) {
	config, deployment := sidecar(t)
	assert.Equal(t, []string{"serve", "--config", "/etc/qosproxy/qosproxy.yaml"}, deployment.Spec.Template.Spec.InitContainers[0].Args)
	require.Contains(t, config.Data, "qosproxy.yaml")
	folder := t.TempDir()
	file := filepath.Join(folder, "qosproxy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config.Data["qosproxy.yaml"]), 0o600))

	check := exec.CommandContext(t.Context(), "go", "run", "./cmd/qosproxy", "config", "check", file)
	check.Dir = "../.."
	check.Env = append(os.Environ(), "QOSPROXY_CASSANDRA_LOCAL_RACK=", "QOSPROXY_LISTEN_GRPC=unix://"+folder+"/grpc.sock")
	out, err := check.CombinedOutput()
	assert.NoError(t, err, "%s", out)
}
