package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const chartFolder = "../helm/qosproxy"

// checksum is the annotation by which a chart rolls pods whose configuration changes.
const checksum = "checksum/qosproxy-config"

// template renders a chart as `helm template` does, the values checked by its schema.
func template(c *chart.Chart, release, values string) ([]byte, error) {
	given, err := loader.LoadValues(strings.NewReader(values))
	if err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: release, Namespace: "default", Revision: 1, IsInstall: true}
	top, err := util.ToRenderValues(c, given, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, top)
	if err != nil {
		return nil, err
	}
	var manifests strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(files[name]) != "" {
			fmt.Fprintf(&manifests, "---\n%s\n", files[name])
		}
	}
	return []byte(manifests.String()), nil
}

// loadChart reads the chart; loadExample that of the example application, with the
// chart as its dependency.
func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(chartFolder)
	require.NoError(t, err)
	return c
}

func loadExample(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load("../helm/example")
	require.NoError(t, err)
	require.Len(t, c.Metadata.Dependencies, 1)
	assert.Equal(t, "qosproxy", c.Metadata.Dependencies[0].Name)
	// What `helm dependency build` does.
	c.AddDependency(loadChart(t))
	return c
}

// rendered returns the objects of the chart with those values.
func rendered(t *testing.T, c *chart.Chart, values string) []runtime.Object {
	t.Helper()
	manifests, err := template(c, "qosproxy", values)
	require.NoError(t, err)
	objects, err := decode(t, manifests)
	require.NoError(t, err, "%s", manifests)
	return objects
}

func TestChartsPassHelmLint(t *testing.T) {
	for _, folder := range []string{chartFolder} {
		for _, m := range lint.RunAll(folder, nil, "default").Messages {
			assert.Less(t, m.Severity, support.WarningSev, "%s: %s: %v", folder, m.Path, m.Err)
		}
	}
}

// TestChartIsWhatKustomizeBuilds holds that the two ways to the cluster agree: with
// the chart's own labels gone, the objects are the same.
func TestChartIsWhatKustomizeBuilds(t *testing.T) {
	for name, from := range map[string]*chart.Chart{"standalone": loadChart(t), "sidecar": loadExample(t)} {
		manifests, err := template(from, "qosproxy", "")
		require.NoError(t, err)
		overlay, chart := plain(t, build(t, name)), plain(t, manifests)
		assert.Equal(t, slices.Sorted(maps.Keys(overlay)), slices.Sorted(maps.Keys(chart)), name)
		for object, want := range overlay {
			assert.Equal(t, want, chart[object], "%s: %s", name, object)
		}
	}
}

// hashed is the name of the ConfigMap that kustomize generates.
var hashed = regexp.MustCompile(`"qosproxy-[a-z0-9]{10}"`)

// plain returns manifests as JSON by kind and name, without what Helm and kustomize add
// of their own, and the configuration file as the data in it.
func plain(t *testing.T, manifests []byte) map[string]string {
	t.Helper()
	objects, err := decode(t, manifests)
	require.NoError(t, err)
	found := map[string]string{}
	for _, o := range objects {
		if c, ok := o.(*corev1.ConfigMap); ok {
			c.Labels = nil
			var settings any
			require.NoError(t, yaml.Unmarshal([]byte(c.Data["qosproxy.yaml"]), &settings))
			data, err := json.Marshal(settings)
			require.NoError(t, err)
			c.Data["qosproxy.yaml"] = string(data)
		}
		data, err := json.Marshal(o)
		require.NoError(t, err)
		var tree map[string]any
		require.NoError(t, json.Unmarshal(data, &tree))
		withoutHelm(tree)
		data, err = json.MarshalIndent(tree, "", " ")
		data = hashed.ReplaceAll(data, []byte(`"qosproxy"`))
		require.NoError(t, err)
		metadata := tree["metadata"].(map[string]any)
		name := hashed.ReplaceAllString(fmt.Sprintf("%q", metadata["name"]), `"qosproxy"`)
		found[fmt.Sprint(o.GetObjectKind().GroupVersionKind().Kind, " ", name)] = string(data)
	}
	return found
}

// withoutHelm removes the labels that Helm's conventions ask for, wherever they are.
func withoutHelm(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, label := range []string{"app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart", checksum} {
			delete(value, label)
		}
		for _, v := range value {
			withoutHelm(v)
		}
	case []any:
		for _, v := range value {
			withoutHelm(v)
		}
	}
}

func TestChartStandsByWhatKustomizePromises(t *testing.T) {
	for name, values := range map[string]string{
		"by default":  "",
		"every value": readFile(t, "testdata/every-value.yaml"),
		"other ports": "config: {listen: {grpc: '0.0.0.0:9000', http: '[::]:9001', admin: '0.0.0.0:9002'}}",
		"a digest":    "image: {digest: 'sha256:" + strings.Repeat("0", 64) + "'}",
	} {
		t.Run(name, func(t *testing.T) {
			objects := rendered(t, loadChart(t), values)
			checkStandalone(t, objects)
			pod := only[*appsv1.Deployment](t, objects).Spec.Template
			assert.Empty(t, checkRestricted(t, pod))
			container := proxyOf(t, pod.Spec)
			checkProxy(t, container, pod.Spec)
			checkServes(t, only[*corev1.ConfigMap](t, objects).Data["qosproxy.yaml"], container)
		})
	}
}

func TestSidecarOfTheExample(t *testing.T) {
	objects := rendered(t, loadExample(t), "")
	checkSidecar(t, objects)
	pod := only[*appsv1.Deployment](t, objects).Spec.Template
	assert.Empty(t, checkRestricted(t, pod))
	checkProxy(t, proxyOf(t, pod.Spec), pod.Spec)
	checkServes(t, only[*corev1.ConfigMap](t, objects).Data["qosproxy.yaml"], proxyOf(t, pod.Spec))

	_, err := template(loadExample(t), "qosproxy", "qosproxy: {shape: standalone}")
	assert.ErrorContains(t, err, "set qosproxy.shape to sidecar")
}

func TestSidecarShapeIsTheConfigurationAlone(t *testing.T) {
	assert.Len(t, rendered(t, loadChart(t), "shape: sidecar"), 1)
}

func TestValuesReachTheirPlaces(t *testing.T) {
	objects := rendered(t, loadChart(t), readFile(t, "testdata/every-value.yaml"))
	pod := only[*appsv1.Deployment](t, objects).Spec.Template
	container := proxyOf(t, pod.Spec)
	assert.Equal(t, "registry.example.com/qosproxy:v1.2.3", container.Image)
	assert.Equal(t, corev1.PullAlways, container.ImagePullPolicy)
	assert.Equal(t, "regcred", pod.Spec.ImagePullSecrets[0].Name)
	assert.Equal(t, "3", container.Resources.Requests.Cpu().String())
	assert.Equal(t, "GOGC", container.Env[1].Name)
	assert.Equal(t, "/run/secrets/cassandra", container.VolumeMounts[1].MountPath)
	assert.Equal(t, "cassandra-password", pod.Spec.Volumes[1].Secret.SecretName)
	assert.Equal(t, "search", pod.Labels["team"])
	assert.Equal(t, "proxy", pod.Spec.ServiceAccountName)
	assert.Equal(t, "compute", pod.Spec.NodeSelector["pool"])
	assert.Len(t, pod.Spec.Tolerations, 1)
	assert.NotNil(t, pod.Spec.Affinity.NodeAffinity)
	assert.EqualValues(t, 90, *pod.Spec.TerminationGracePeriodSeconds)
	scaler := only[*autoscalingv2.HorizontalPodAutoscaler](t, objects)
	assert.EqualValues(t, 5, *scaler.Spec.MinReplicas)
	assert.EqualValues(t, 50, scaler.Spec.MaxReplicas)
	assert.EqualValues(t, 40, *scaler.Spec.Metrics[0].Resource.Target.AverageUtilization)
	network := only[*networkingv1.NetworkPolicy](t, objects)
	assert.Equal(t, map[string]string{"may-read": "yes"}, network.Spec.Ingress[0].From[0].PodSelector.MatchLabels)
	assert.Len(t, network.Spec.Ingress[0].From, 3)
	assert.Equal(t, "checkout", network.Spec.Ingress[0].From[2].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"])
	assert.Equal(t, map[string]string{"may-read": "yes"}, network.Spec.Ingress[0].From[2].PodSelector.MatchLabels)
	assert.Equal(t, "observability", network.Spec.Ingress[1].From[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"])
	assert.EqualValues(t, 9142, network.Spec.Egress[0].Ports[0].Port.IntValue())
}

// TestAChangedConfigurationRollsThePods holds it for kustomize and both shapes of the chart.
func TestAChangedConfigurationRollsThePods(t *testing.T) {
	pod := func(c *chart.Chart, values string) corev1.PodTemplateSpec {
		return only[*appsv1.Deployment](t, rendered(t, c, values)).Spec.Template
	}
	for name, of := range map[string]struct {
		chart *chart.Chart
		under string
	}{"standalone": {loadChart(t), "%s"}, "sidecar": {loadExample(t), "qosproxy: {%s}"}} {
		values := func(s string) string { return fmt.Sprintf(of.under, s) }
		before := pod(of.chart, values("rackFromZone: true"))
		assert.NotEmpty(t, before.Annotations[checksum], name)
		assert.Equal(t, before, pod(of.chart, values("rackFromZone: true")), name)
		for _, once := range []string{
			"cassandra: {contact_points: [10.0.0.1]}", "admin: {hot_keys: plain}", "log: {format: text}", "shadow: {sample: 1%}",
			"tables: [{name: shop.products, consistency: NODE_LOCAL}]", "defaults: {quorum_reads: replicas}",
		} {
			after := pod(of.chart, values("config: {"+once+"}"))
			assert.NotEqual(t, before.Annotations[checksum], after.Annotations[checksum], "%s: %s", name, once)
			assert.Contains(t, after.Annotations, "prometheus.io/port", name)
		}
		for _, again := range []string{
			"config: {tables: [{name: shop.other}]}", "config: {cassandra: {password_file: /run/other}}",
			"config: {cassandra: {dc_failover_keys: 4096}}", "config: {log: {level: debug}}",
		} {
			assert.Equal(t, before.Annotations, pod(of.chart, values(again)).Annotations, "%s: the proxy reads it again by itself", name)
		}
	}
	bare := pod(loadChart(t), "podAnnotations: {prometheus.io/scrape: null, prometheus.io/port: null}")
	assert.Len(t, bare.Annotations, 1)

	for _, name := range []string{"standalone", "sidecar"} {
		used := func(manifests []byte) string {
			for _, v := range podIn(t, manifests).Volumes {
				if v.ConfigMap != nil {
					return v.ConfigMap.Name
				}
			}
			return ""
		}
		other := buildMine(t, "resources: [../"+name+"]\nconfigMapGenerator: [{name: qosproxy, behavior: merge, literals: ['qosproxy.yaml=other']}]\n")
		assert.Regexp(t, "^qosproxy-.+", used(build(t, name)), name)
		assert.NotEqual(t, used(build(t, name)), used(other), name)
	}
}

func TestWhatIsSwitchedOffIsNotThere(t *testing.T) {
	objects := rendered(t, loadChart(t), "{replicas: 4, autoscaling: {enabled: false}, podDisruptionBudget: {enabled: false}, networkPolicy: {enabled: false}}")
	assert.Empty(t, all[*autoscalingv2.HorizontalPodAutoscaler](objects))
	assert.Empty(t, all[*policyv1.PodDisruptionBudget](objects))
	assert.Empty(t, all[*networkingv1.NetworkPolicy](objects))
	replicas := only[*appsv1.Deployment](t, objects).Spec.Replicas
	require.NotNil(t, replicas, "without an autoscaler nobody else says how many")
	assert.EqualValues(t, 4, *replicas)
}

// documents returns the objects of a kind that the typed decoder does not know.
func documents(t *testing.T, c *chart.Chart, values, kind string) []map[string]any {
	t.Helper()
	manifests, err := template(c, "qosproxy", values)
	require.NoError(t, err)
	var found []map[string]any
	for _, document := range strings.Split(string(manifests), "\n---\n") {
		var object map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(document), &object))
		if object["kind"] == kind {
			found = append(found, object)
		}
	}
	return found
}

func TestPodMonitorOfTheChart(t *testing.T) {
	deployment := only[*appsv1.Deployment](t, rendered(t, loadChart(t), ""))
	assert.Empty(t, documents(t, loadChart(t), "", "PodMonitor"))
	found := documents(t, loadChart(t), "podMonitor: {enabled: true}", "PodMonitor")
	require.Len(t, found, 1)
	checkPodMonitor(t, found[0], deployment)
}

// TestPodMonitorOfASidecar is of pods that have the labels of their application.
func TestPodMonitorOfASidecar(t *testing.T) {
	found := documents(t, loadChart(t), `{shape: sidecar, config: {listen: {tls: {admin: {cert_file: a, key_file: b}}}},
		podMonitor: {enabled: true, labels: {release: prometheus}, podLabels: {app: shop}, cluster: eu, tlsConfig: {serverName: proxy}}}`, "PodMonitor")
	require.Len(t, found, 1)
	var monitor podMonitor
	decodeStrictly(t, found[0], &monitor)
	assert.Equal(t, map[string]string{"app": "shop"}, monitor.Spec.Selector.MatchLabels)
	assert.Equal(t, "prometheus", monitor.Metadata["labels"].(map[string]any)["release"])
	endpoint := monitor.Spec.PodMetricsEndpoints[0]
	assert.Equal(t, "https", endpoint.Scheme)
	assert.Equal(t, map[string]any{"serverName": "proxy"}, endpoint.TLSConfig)
	assert.Equal(t, []map[string]string{{"targetLabel": "job", "replacement": "qosproxy"}, {"targetLabel": "cluster", "replacement": "eu"}}, endpoint.Relabelings)
	_, err := template(loadChart(t), "qosproxy", "{shape: sidecar, podMonitor: {enabled: true}}")
	assert.ErrorContains(t, err, "podMonitor.podLabels")
}

// TestRulesAndDashboardOfTheChart holds that they are those that are tested.
func TestRulesAndDashboardOfTheChart(t *testing.T) {
	for _, shape := range []string{"standalone", "sidecar"} {
		values := "{shape: " + shape + ", prometheusRule: {enabled: true, labels: {release: prometheus}}, dashboard: {enabled: true}}"
		rules := documents(t, loadChart(t), values, "PrometheusRule")
		require.Len(t, rules, 1)
		var groups []any
		for _, file := range []string{"recording", "alerts"} {
			var tested map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "../prometheus/"+file+".yaml")), &tested))
			groups = append(groups, tested["groups"].([]any)...)
		}
		assert.Equal(t, groups, rules[0]["spec"].(map[string]any)["groups"])
		var dashboards []map[string]any
		for _, m := range documents(t, loadChart(t), values, "ConfigMap") {
			if data := m["data"].(map[string]any)["qosproxy.json"]; data != nil {
				assert.JSONEq(t, readFile(t, "../grafana/qosproxy.json"), data.(string))
				dashboards = append(dashboards, m)
			}
		}
		assert.Len(t, dashboards, 1, shape)
	}
}

// TestSchemaRefusesWhatCannotWork holds that a mistake is found before anything is
// rendered, and that its place is named.
func TestSchemaRefusesWhatCannotWork(t *testing.T) {
	for name, tc := range map[string]struct{ values, says string }{
		"a misspelt value":            {"immage: {tag: x}", "immage"},
		"a misspelt value, nested":    {"autoscaling: {maxReplica: 3}", "maxReplica"},
		"a shape there is not":        {"shape: daemonset", "shape"},
		"no table":                    {"config: {tables: []}", "tables"},
		"a table without a keyspace":  {"config: {tables: [{name: products}]}", "name"},
		"no contact point":            {"config: {cassandra: {contact_points: []}}", "contact_points"},
		"a password":                  {"config: {cassandra: {password: secret}}", "password"},
		"a socket for the network":    {"config: {listen: {grpc: 'unix:///run/grpc.sock'}}", "grpc"},
		"an admin socket":             {"config: {listen: {admin: 'unix:///run/admin.sock'}}", "admin"},
		"a digest that is none":       {"image: {digest: 'sha256:12'}", "digest"},
		"a limit without memory":      {"resources: {limits: {cpu: 1}}", "memory"},
		"an end that comes too early": {"terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds"},
		"no replica":                  {"autoscaling: {minReplicas: 0}", "minReplicas"},
		"a maximum below the minimum": {"autoscaling: {minReplicas: 9, maxReplicas: 3}", "maxReplicas is below"},
		"lookups from everybody":      {"networkPolicy: {clientPodLabels: null}", "clientPodLabels"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := template(loadChart(t), "qosproxy", tc.values)
			assert.ErrorContains(t, err, tc.says)
		})
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.FromSlash(name))
	require.NoError(t, err)
	return string(data)
}
