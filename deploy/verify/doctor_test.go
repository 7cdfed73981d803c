package verify

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// doctored returns, by name, everything that can be deployed with the check.
func doctored(t *testing.T) map[string][]byte {
	t.Helper()
	images := "images: [{name: ghcr.io/qosproxy/qosproxy, newName: registry.example.com/team/qosproxy, newTag: 1.2.3}]\n"
	standalone, err := template(loadChart(t), "qosproxy", "{doctor: {enabled: true}, image: {repository: registry.example.com/team/qosproxy, tag: 1.2.3}}")
	require.NoError(t, err)
	sidecar, err := template(loadExample(t), "qosproxy", "qosproxy: {doctor: {enabled: true}, image: {repository: registry.example.com/team/qosproxy, tag: 1.2.3}}")
	require.NoError(t, err)
	return map[string][]byte{
		"kustomize: standalone": buildMine(t, "resources: [../standalone]\ncomponents: [../doctor]\n"+images),
		"kustomize: sidecar":    buildMine(t, "resources: [../sidecar]\ncomponents: [../doctor]\n"+images),
		"helm: standalone":      standalone,
		"helm: sidecar":         sidecar,
	}
}

// TestDoctorHoldsPodsBackWhereAskedTo holds that it runs before the proxy, as what the
// proxy will be, and is not there by default.
func TestDoctorHoldsPodsBackWhereAskedTo(t *testing.T) {
	for name, manifests := range doctored(t) {
		t.Run(name, func(t *testing.T) {
			objects, err := decode(t, manifests)
			require.NoError(t, err)
			template := only[*appsv1.Deployment](t, objects).Spec.Template
			assert.Empty(t, checkRestricted(t, template))
			require.NotEmpty(t, template.Spec.InitContainers)
			doctor, serves := template.Spec.InitContainers[0], proxyOf(t, template.Spec)
			assert.Equal(t, []string{"doctor", "--config", "/etc/qosproxy/qosproxy.yaml"}, doctor.Args)
			assert.Nil(t, doctor.RestartPolicy, "it ends")
			assert.Equal(t, ownImage, doctor.Image)
			assert.Equal(t, serves.Image, doctor.Image)
			assert.Equal(t, serves.Env, doctor.Env)
			assert.Equal(t, serves.SecurityContext, doctor.SecurityContext)
			assert.Subset(t, serves.VolumeMounts, doctor.VolumeMounts)
			checkProxy(t, serves, template.Spec)

			// Without Cassandra the command itself fails, and not the reading of it.
			file := filepath.Join(t.TempDir(), "qosproxy.yaml")
			configuration := only[*corev1.ConfigMap](t, objects).Data["qosproxy.yaml"]
			require.NoError(t, os.WriteFile(file, []byte(configuration), 0o600))
			check := exec.CommandContext(t.Context(), proxy, doctor.Args[0], doctor.Args[1], file)
			check.Env = append(os.Environ(), "QOSPROXY_CASSANDRA_CONTACT_POINTS=127.0.0.1:1", "QOSPROXY_CASSANDRA_LOCAL_RACK=")
			out, err := check.CombinedOutput()
			var exit *exec.ExitError
			require.True(t, errors.As(err, &exit), "%v", err)
			assert.Equal(t, 1, exit.ExitCode(), "%s", out)
			assert.Contains(t, string(out), "problem  connection")
		})
	}
	chart, err := template(loadChart(t), "qosproxy", "")
	require.NoError(t, err)
	for _, manifests := range [][]byte{build(t, "standalone"), build(t, "sidecar"), chart} {
		for _, c := range podIn(t, manifests).InitContainers {
			assert.NotEqual(t, "doctor", c.Args[0], "a pod must be able to start without Cassandra")
		}
	}
}
