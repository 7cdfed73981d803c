package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReleaseConfigurationIsStrictlyRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "goreleaser.yaml")
	require.NoError(t, os.WriteFile(file, []byte("version: 2\nbuild: []\n"), 0o600))
	_, err := config.Load(file)
	assert.ErrorContains(t, err, "build")
}

// TestReleaseBuildsWhatMakeBuilds holds that a release differs from `make build` in
// the version alone, and that the workflow runs the goreleaser that reads it here.
func TestReleaseBuildsWhatMakeBuilds(t *testing.T) {
	release, err := config.Load("../../.goreleaser.yaml")
	require.NoError(t, err)
	assert.Equal(t, 2, release.Version)
	require.Len(t, release.Builds, 1)
	build := release.Builds[0]

	makefile := readFile(t, "../../Makefile")
	assert.Equal(t, "./cmd/qosproxy", build.Main)
	assert.Equal(t, []string{"CGO_ENABLED=0"}, build.Env)
	const tags = "grpcnotrace"
	assert.Equal(t, config.FlagArray{"-trimpath", "-tags=" + tags}, build.Flags)
	assert.Contains(t, makefile, "CGO_ENABLED=0 $(GO) build -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o $(BIN)/qosproxy ./cmd/qosproxy\n")
	for _, file := range []string{"../../Dockerfile", "../../internal/tools/reproducible.sh"} {
		assert.Contains(t, readFile(t, file), "-trimpath -tags "+tags, file)
	}
	assert.Contains(t, makefile, "TAGS    := "+tags+"\n")
	require.Len(t, build.Ldflags, 1)
	assert.Contains(t, makefile, "LDFLAGS := "+strings.ReplaceAll(build.Ldflags[0], "{{ .Version }}", "$(VERSION)")+"\n")

	// `make cross` builds them all.
	for _, system := range build.Goos {
		for _, processor := range build.Goarch {
			assert.Contains(t, makefile, system+"/"+processor)
		}
	}
	require.Len(t, build.Hooks.Post, 1)
	assert.Contains(t, build.Hooks.Post[0].Cmd, "make sbom ")
	require.Len(t, release.Release.ExtraFiles, 1)
	assert.Equal(t, release.Release.ExtraFiles, release.Checksum.ExtraFiles, "every file has its checksum")

	var version string
	for line := range strings.Lines(readFile(t, "go.mod")) {
		if _, after, ok := strings.Cut(strings.TrimSpace(line), "github.com/goreleaser/goreleaser/v2 "); ok {
			version = after
		}
	}
	assert.Contains(t, readFile(t, "../../.github/workflows/release.yml"), "version: "+version+"\n")
}
