package verify

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startAPIServer starts etcd and a kube-apiserver, which end with the test.
func startAPIServer(t *testing.T) client.Client {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS names no folder with kube-apiserver and etcd; make kubernetes-check builds it")
	}
	environment := &envtest.Environment{}
	config, err := environment.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, environment.Stop()) })
	c, err := client.New(config, client.Options{})
	require.NoError(t, err)
	return c
}

// apply does what `kubectl apply --server-side --dry-run=server` does.
func apply(t *testing.T, c client.Client, manifests []byte) error {
	t.Helper()
	var all []error
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return errors.Join(all...)
		}
		require.NoError(t, err)
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(document, &object.Object))
		if len(object.Object) == 0 {
			continue
		}
		if object.GetNamespace() == "" {
			object.SetNamespace(metav1.NamespaceDefault)
		}
		all = append(all, c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.DryRunAll, client.FieldOwner("verify")))
	}
}

// TestAnAPIServerTakesWhatIsDeployed gives everything to a real API server, which
// defaults, validates and admits it as a cluster would.
func TestAnAPIServerTakesWhatIsDeployed(t *testing.T) {
	c := startAPIServer(t)
	helm := func(shape string, values string) []byte {
		chart := loadChart(t)
		if shape == "sidecar" {
			chart = loadExample(t)
		}
		manifests, err := template(chart, "qosproxy", values)
		require.NoError(t, err)
		return manifests
	}
	deployed := map[string][]byte{
		"kustomize: sidecar":            build(t, "sidecar"),
		"kustomize: standalone":         build(t, "standalone"),
		"helm: sidecar of the example":  helm("sidecar", ""),
		"helm: standalone":              helm("standalone", ""),
		"helm: standalone, every value": helm("standalone", readFile(t, "testdata/every-value.yaml")),
	}
	for name, manifests := range doctored(t) {
		deployed["doctor, "+name] = manifests
	}
	restricted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "restricted", Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest",
	}}}
	require.NoError(t, c.Create(t.Context(), restricted))
	for name, manifests := range deployed {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, apply(t, c, manifests))
			objects, err := decode(t, manifests)
			require.NoError(t, err)
			for _, d := range all[*appsv1.Deployment](objects) {
				pod := podOf(d)
				require.NoError(t, c.Create(t.Context(), pod, client.DryRunAll), "where only restricted pods may be")
				pod = podOf(d)
				pod.Spec.HostPID = true
				assert.ErrorContains(t, c.Create(t.Context(), pod, client.DryRunAll), `violates PodSecurity "restricted`, "the control")
			}
		})
	}
	// What a strict decoder takes, and a cluster does not.
	for name, broken := range map[string][2]string{
		"a selector of other pods":      {"    matchLabels:\n      app.kubernetes.io/name: qosproxy", "    matchLabels:\n      app.kubernetes.io/name: other"},
		"more replicas at least":        {"minReplicas: 3", "minReplicas: 300"},
		"a port that is none":           {"port: 50051", "port: 0"},
		"a disruption budget of two":    {"maxUnavailable: 1\n", "maxUnavailable: 1\n  minAvailable: 1\n"},
		"a request that is above limit": {"memory: 256Mi", "memory: 256Gi"},
	} {
		t.Run("control: "+name, func(t *testing.T) {
			manifests := build(t, "standalone")
			require.Contains(t, string(manifests), broken[0])
			manifests = bytes.Replace(manifests, []byte(broken[0]), []byte(broken[1]), 1)
			_, err := decode(t, manifests)
			require.NoError(t, err)
			assert.ErrorContains(t, apply(t, c, manifests), "nvalid")
		})
	}
}

// podOf is a pod as the controller of a deployment would create it in the namespace
// that takes restricted pods only.
func podOf(d *appsv1.Deployment) *corev1.Pod {
	template := d.Spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name, pod.Namespace = "pod", "restricted"
	return pod
}
