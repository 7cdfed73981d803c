package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// build renders a folder of deploy/kubernetes as `kubectl apply -k` does.
func build(t *testing.T, folder string) []byte {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join("../kubernetes", folder))
	require.NoError(t, err)
	manifests, err := resources.AsYaml()
	require.NoError(t, err)
	return manifests
}

// overlay returns the objects of an overlay.
func overlay(t *testing.T, name string) []runtime.Object {
	t.Helper()
	objects, err := decode(t, build(t, name))
	require.NoError(t, err)
	return objects
}

// proxyOf returns the container that is the proxy, an init container or not.
func proxyOf(t *testing.T, pod corev1.PodSpec) corev1.Container {
	t.Helper()
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		if c.Name == "qosproxy" {
			return c
		}
	}
	t.Fatal("there is no container qosproxy")
	return corev1.Container{}
}

// checkRestricted holds a pod against the Pod Security Standard "restricted", by the
// code of Kubernetes' own admission.
func checkRestricted(t *testing.T, template corev1.PodTemplateSpec) string {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec))
	if result.Allowed {
		return ""
	}
	return result.ForbiddenDetail()
}

func TestPodsAreRestricted(t *testing.T) {
	for _, name := range []string{"sidecar", "standalone"} {
		template := only[*appsv1.Deployment](t, overlay(t, name)).Spec.Template
		assert.Empty(t, checkRestricted(t, template), name)

		// The check can fail: each thing that it is about, taken away.
		for what, spoil := range map[string]func(*corev1.PodSpec, *corev1.SecurityContext){
			"root": func(p *corev1.PodSpec, c *corev1.SecurityContext) {
				p.SecurityContext.RunAsNonRoot, c.RunAsNonRoot = nil, nil
			},
			"capabilities": func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.Capabilities = nil },
			"escalation":   func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.AllowPrivilegeEscalation = nil },
			"seccomp": func(p *corev1.PodSpec, c *corev1.SecurityContext) {
				p.SecurityContext.SeccompProfile, c.SeccompProfile = nil, nil
			},
		} {
			spoilt := template.DeepCopy()
			containers := spoilt.Spec.Containers
			if len(spoilt.Spec.InitContainers) > 0 {
				containers = spoilt.Spec.InitContainers
			}
			spoil(&spoilt.Spec, containers[0].SecurityContext)
			assert.NotEmpty(t, checkRestricted(t, *spoilt), "%s without %s", name, what)
		}
	}
}

// TestBothShapesRunTheSameProxy holds that what the shapes do not decide is the base's.
func TestBothShapesRunTheSameProxy(t *testing.T) {
	for _, name := range []string{"sidecar", "standalone"} {
		objects := overlay(t, name)
		pod := only[*appsv1.Deployment](t, objects).Spec.Template.Spec
		checkProxy(t, proxyOf(t, pod), pod)

		configuration := only[*corev1.ConfigMap](t, objects)
		require.Contains(t, configuration.Data, "qosproxy.yaml")
		checkServes(t, configuration.Data["qosproxy.yaml"], proxyOf(t, pod))
	}
}

// checkProxy holds what every pod with a proxy promises.
func checkProxy(t *testing.T, c corev1.Container, pod corev1.PodSpec) {
	t.Helper()
	yes, no, user := true, false, int64(65532)
	assert.Equal(t, &corev1.SecurityContext{
		RunAsNonRoot:             &yes,
		RunAsUser:                &user,
		RunAsGroup:               &user,
		ReadOnlyRootFilesystem:   &yes,
		AllowPrivilegeEscalation: &no,
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}, c.SecurityContext)

	assert.Positive(t, c.Resources.Limits.Memory().Value())
	assert.LessOrEqual(t, c.Resources.Requests.Memory().Value(), c.Resources.Limits.Memory().Value())
	assert.NotContains(t, c.Resources.Limits, corev1.ResourceCPU, "throttling is latency")
	for _, e := range c.Env {
		assert.NotEqual(t, "GOMEMLIMIT", e.Name, "the proxy takes it from the limit, with room for what Go does not count")
	}
	require.NotEmpty(t, c.Env)
	assert.Equal(t, "QOSPROXY_CASSANDRA_LOCAL_RACK", c.Env[0].Name)
	assert.Equal(t, "metadata.labels['topology.kubernetes.io/zone']", c.Env[0].ValueFrom.FieldRef.FieldPath)

	assert.Equal(t, []string{"serve", "--config", "/etc/qosproxy/qosproxy.yaml"}, c.Args)
	require.NotNil(t, c.StartupProbe)
	require.NotNil(t, c.StartupProbe.Exec)
	assert.Equal(t, []string{"/qosproxy", "health", "--live", "--config", "/etc/qosproxy/qosproxy.yaml"}, c.StartupProbe.Exec.Command)
	probes := map[string]*corev1.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe}
	if c.RestartPolicy != nil {
		assert.Nil(t, c.ReadinessProbe, "without Cassandra the application stays in service")
		delete(probes, "/readyz")
	}
	for path, probe := range probes {
		require.NotNil(t, probe)
		require.NotNil(t, probe.HTTPGet)
		assert.Equal(t, path, probe.HTTPGet.Path)
		assert.Equal(t, "admin", probe.HTTPGet.Port.String())
	}

	// Every mount has its volume, and the configuration is mounted as a folder.
	volumes := map[string]corev1.VolumeSource{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v.VolumeSource
	}
	mounted := false
	for _, m := range c.VolumeMounts {
		assert.Contains(t, volumes, m.Name)
		assert.Empty(t, m.SubPath, "a file that is mounted by itself never changes")
		if m.MountPath == "/etc/qosproxy" {
			mounted = volumes[m.Name].ConfigMap != nil
		}
	}
	assert.True(t, mounted)
}

// checkServes holds that the proxy takes the configuration, on a node that has no
// zone, and that the ports of the container are those it listens on. The socket is
// elsewhere, where there is a folder for it.
func checkServes(t *testing.T, configuration string, c corev1.Container) {
	t.Helper()
	listen := listenersOf(t, configuration)
	env := []string{"QOSPROXY_CASSANDRA_LOCAL_RACK="}
	if isSocket(listen["grpc"]) {
		env = append(env, "QOSPROXY_LISTEN_GRPC=unix://"+t.TempDir()+"/grpc.sock")
	}
	out, err := checkConfig(t, configuration, env...)
	assert.NoError(t, err, out)

	for _, p := range c.Ports {
		require.Contains(t, listen, p.Name)
		assert.Equal(t, p.ContainerPort, portOf(t, listen[p.Name]), p.Name)
		assert.True(t, isOpen(listen[p.Name]), "%s listens on %s, which nobody outside of the pod reaches", p.Name, listen[p.Name])
		delete(listen, p.Name)
	}
	for name, address := range listen {
		assert.False(t, isOpen(address), "%s listens on %s, which is no port of the container", name, address)
	}
}

// TestPodMonitorFindsTheProxies also holds that the component can be taken in.
func TestPodMonitorFindsTheProxies(t *testing.T) {
	fs := filesys.MakeFsInMemory()
	require.NoError(t, copyTree(fs, "../kubernetes", "/kubernetes"))
	require.NoError(t, fs.MkdirAll("/kubernetes/mine"))
	require.NoError(t, fs.WriteFile("/kubernetes/mine/kustomization.yaml", []byte("resources: [../standalone]\ncomponents: [../podmonitor]\n")))
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fs, "/kubernetes/mine")
	require.NoError(t, err)
	monitor, deployment := map[string]any{}, only[*appsv1.Deployment](t, overlay(t, "standalone"))
	for _, r := range resources.Resources() {
		if r.GetKind() == "PodMonitor" {
			monitor, err = r.Map()
			require.NoError(t, err)
		}
	}
	checkPodMonitor(t, monitor, deployment)
}

// podMonitor is what the chart and the component use of the Prometheus operator's.
type podMonitor struct {
	APIVersion string         `yaml:"apiVersion"`
	Kind       string         `yaml:"kind"`
	Metadata   map[string]any `yaml:"metadata"`
	Spec       struct {
		JobLabel                string `yaml:"jobLabel"`
		ScrapeClassicHistograms bool   `yaml:"scrapeClassicHistograms"`
		Selector                struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"selector"`
		PodMetricsEndpoints []struct {
			Port string `yaml:"port"`
			Path string `yaml:"path"`

			Scheme      string              `yaml:"scheme"`
			TLSConfig   map[string]any      `yaml:"tlsConfig"`
			Relabelings []map[string]string `yaml:"relabelings"`
		} `yaml:"podMetricsEndpoints"`
	} `yaml:"spec"`
}

func checkPodMonitor(t *testing.T, object map[string]any, deployment *appsv1.Deployment) {
	t.Helper()
	var monitor podMonitor
	decodeStrictly(t, object, &monitor)
	assert.Equal(t, "monitoring.coreos.com/v1", monitor.APIVersion)
	assert.True(t, monitor.Spec.ScrapeClassicHistograms, "which rules and dashboard read")
	assert.NotEmpty(t, monitor.Spec.Selector.MatchLabels)
	for name, value := range monitor.Spec.Selector.MatchLabels {
		assert.Equal(t, value, deployment.Spec.Template.Labels[name])
	}
	alerts, err := os.ReadFile("../prometheus/alerts.yaml")
	require.NoError(t, err)
	assert.Contains(t, string(alerts), fmt.Sprintf("up{job=%q}", deployment.Spec.Template.Labels[monitor.Spec.JobLabel]),
		"the alert on a proxy that is down has the job of the PodMonitor")
	require.Len(t, monitor.Spec.PodMetricsEndpoints, 1)
	assert.Equal(t, "admin", monitor.Spec.PodMetricsEndpoints[0].Port)
	assert.Equal(t, "/metrics", monitor.Spec.PodMetricsEndpoints[0].Path)
}
