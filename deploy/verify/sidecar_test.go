package verify

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
	checkLeavesPorts(t, configuration.Data["qosproxy.yaml"])
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

// checkLeavesPorts runs the proxy with the configuration of a sidecar, beside an
// application that has 127.0.0.1:8080 and without Cassandra: it serves on the socket, and
// is alive, for the probes, though it is not ready.
func checkLeavesPorts(t *testing.T, configuration string) {
	t.Helper()
	application, err := net.Listen("tcp", "127.0.0.1:8080")
	if err == nil {
		defer application.Close()
	} else {
		require.ErrorContains(t, err, "in use", "another program has it, which serves as well")
	}
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, admin.Close())
	folder := t.TempDir()
	file := filepath.Join(folder, "qosproxy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(configuration), 0o600))
	run := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), proxy, append(args, "--config", file)...)
		c.Env = append(os.Environ(), "QOSPROXY_CASSANDRA_CONTACT_POINTS=127.0.0.1:1", "QOSPROXY_CASSANDRA_LOCAL_RACK=",
			"QOSPROXY_LISTEN_GRPC=unix://"+folder+"/grpc.sock", "QOSPROXY_LISTEN_ADMIN="+admin.Addr().String())
		return c
	}
	var log bytes.Buffer
	serve := run("serve")
	serve.Stderr = &log
	require.NoError(t, serve.Start())
	ended := make(chan error, 1)
	go func() { ended <- serve.Wait() }()
	defer func() {
		_ = serve.Process.Kill() // it may have ended
		<-ended
	}()
	for run("health", "--live").Run() != nil {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the proxy has ended: %v\n%s", err, log.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
	assert.Error(t, run("health").Run(), "it is not ready")
	conn, err := net.Dial("unix", filepath.Join(folder, "grpc.sock"))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}
