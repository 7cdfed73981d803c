package verify

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const (
	released = "0.1.0"
	image    = "ghcr.io/qosproxy/qosproxy:" + released
	ownImage = "registry.example.com/team/qosproxy:1.2.3"
)

// dryRun returns what make would run in the root of the tree.
func dryRun(t *testing.T, args ...string) string {
	t.Helper()
	run := exec.CommandContext(t.Context(), "make", append([]string{"--no-print-directory", "-n", "-C", "../.."}, args...)...)
	// Of the make that runs the tests, nothing is passed on.
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MAKE") && !strings.HasPrefix(v, "MFLAGS=") && !strings.HasPrefix(v, "IMAGE=") {
			run.Env = append(run.Env, v)
		}
	}
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// TestWhatIsBuiltIsWhatIsDeployed holds that a build without a tag, `make image`, the
// manifests, the chart and compose have one image and one version, and that each takes
// another image.
func TestWhatIsBuiltIsWhatIsDeployed(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), proxy, "version").CombinedOutput()
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(out), "qosproxy "+released+" "), "%s", out)
	assert.Equal(t, 2, strings.Count(readFile(t, "../../Dockerfile"), "ARG VERSION="+released+"\n"))
	metadata := loadChart(t).Metadata
	assert.Equal(t, []string{released, released}, []string{metadata.Version, metadata.AppVersion})

	assert.Contains(t, dryRun(t, "image"), " -t '"+image+"' .")
	assert.Contains(t, dryRun(t, "image", "IMAGE="+ownImage), " -t '"+ownImage+"' .")
	assert.Contains(t, dryRun(t, "image", "VERSION=1.2.3"), "VERSION='1.2.3'")

	for _, name := range []string{"standalone", "sidecar"} {
		assert.Equal(t, image, proxyOf(t, podIn(t, build(t, name))).Image, name)
		// What `kustomize edit set image` writes.
		own := buildMine(t, "resources: [../"+name+"]\nimages: [{name: ghcr.io/qosproxy/qosproxy, newName: registry.example.com/team/qosproxy, newTag: 1.2.3}]\n")
		assert.Equal(t, ownImage, proxyOf(t, podIn(t, own)).Image, name)
	}

	manifests, err := template(loadChart(t), "qosproxy", "")
	require.NoError(t, err)
	assert.Equal(t, image, proxyOf(t, podIn(t, manifests)).Image)
	manifests, err = template(loadExample(t), "qosproxy", "qosproxy: {image: {repository: registry.example.com/team/qosproxy, tag: 1.2.3}}")
	require.NoError(t, err)
	assert.Equal(t, ownImage, proxyOf(t, podIn(t, manifests)).Image)

	p, err := project(t, filepath.Join(composeFolder, "compose.yaml"))
	require.NoError(t, err)
	assert.Equal(t, image, p.Services["qosproxy"].Image)
}

// podIn returns the pod of the one deployment of the manifests.
func podIn(t *testing.T, manifests []byte) corev1.PodSpec {
	t.Helper()
	objects, err := decode(t, manifests)
	require.NoError(t, err)
	return only[*appsv1.Deployment](t, objects).Spec.Template.Spec
}

// buildMine builds a kustomization of the user, in a folder beside the overlays.
func buildMine(t *testing.T, kustomization string) []byte {
	t.Helper()
	files := filesys.MakeFsInMemory()
	require.NoError(t, copyTree(files, "../kubernetes", "/kubernetes"))
	require.NoError(t, files.MkdirAll("/kubernetes/mine"))
	require.NoError(t, files.WriteFile("/kubernetes/mine/kustomization.yaml", []byte(kustomization)))
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/kubernetes/mine")
	require.NoError(t, err)
	manifests, err := resources.AsYaml()
	require.NoError(t, err)
	return manifests
}

// ofOneCloud are names that only nodes of one cloud have: its labels and its machines.
var ofOneCloud = regexp.MustCompile(`amazonaws\.com|cloud\.google\.com|azure\.com|karpenter|instance-type|` +
	`\b[a-z]+[0-9]+[a-z-]*\.([0-9]*x?large|metal|medium|small)\b|\b[a-z][0-9][a-z]?-(standard|highcpu|highmem)-[0-9]+\b|\bStandard_[A-Z][0-9]`)

// TestNothingBindsToOneCloud holds that the pods find a node in every cluster.
func TestNothingBindsToOneCloud(t *testing.T) {
	for _, name := range []string{"c7g.xlarge", "eks.amazonaws.com/nodegroup", "c2-standard-8", "node.kubernetes.io/instance-type"} {
		assert.Regexp(t, ofOneCloud, name, "the control")
	}
	for _, folder := range []string{"../kubernetes", "../helm", composeFolder} {
		require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				assert.NotRegexp(t, ofOneCloud, readFile(t, path), path)
			}
			return err
		}))
	}
	chart, err := template(loadChart(t), "qosproxy", "")
	require.NoError(t, err)
	for _, manifests := range [][]byte{build(t, "standalone"), build(t, "sidecar"), chart} {
		pod := podIn(t, manifests)
		assert.Empty(t, pod.NodeSelector)
		assert.Empty(t, pod.Tolerations)
		assert.Nil(t, pod.Affinity)
	}
}
