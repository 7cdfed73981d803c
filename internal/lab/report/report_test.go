package report

import (
	"bytes"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/underrace"
)

var (
	update = flag.Bool("update", false, "write what the tests see as the golden files")
	pages  = flag.String("pages", "", "a directory to write pages and images into, to look at")
)

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "run go test -update and look at the difference")
}

// twoConditions is the example of the golden files.
func twoConditions() *Report { return example("example", "LOCAL_ONE", "LOCAL_QUORUM, 256 vnodes") }

// sixConditions is as much as a report is expected to hold.
func sixConditions() *Report {
	return example("six", "LOCAL_ONE, 1 key", "LOCAL_ONE, 10 keys", "LOCAL_ONE, 50 keys", "LOCAL_ONE, 200 keys",
		"LOCAL_QUORUM, 50 keys", "LOCAL_QUORUM, 50 keys, one node paused")
}

func TestTheExampleReadsBackAsItWas(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, twoConditions().WriteJSON(&out))
	golden(t, "example.json", out.String())

	read, err := Read(&out)
	require.NoError(t, err)
	assert.Equal(t, twoConditions(), read)
}

func TestText(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, twoConditions().WriteText(&out, TextOptions{}))
	golden(t, "example.txt", out.String())
}

func TestTextFitsInATerminal(t *testing.T) {
	r := sixConditions()
	r.Runs[0].Target = "a-target-with-a-name-that-is-too-long"
	r.Runs[1].Rounds[0].Counts.Errors = map[string]int64{strings.Repeat("a long error ", 30): 3}
	r.Runs[1].Rounds[0].Counts.Failed = 3
	var out bytes.Buffer
	require.NoError(t, r.WriteText(&out, TextOptions{}))
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, uniseg.StringWidth(strings.TrimRight(line, "\n")), textWidth, line)
	}
}

func TestColourOnlyIfAsked(t *testing.T) {
	var plain, coloured bytes.Buffer
	require.NoError(t, twoConditions().WriteText(&plain, TextOptions{}))
	require.NoError(t, twoConditions().WriteText(&coloured, TextOptions{Colour: true}))
	assert.NotContains(t, plain.String(), "\x1b[")
	assert.Contains(t, coloured.String(), "\x1b[1;31mFAIL\x1b[0m")
}

func TestMarkdown(t *testing.T) {
	images := []Image{{Chart: "cpu", Title: "CPU per lookup [ms]", File: "docs/bench/example-cpu.svg"}}
	var out bytes.Buffer
	require.NoError(t, twoConditions().WriteMarkdown(&out, images))
	golden(t, "example.md", out.String())
}

func TestPage(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, twoConditions().WriteHTML(&out))
	script, err := echarts()
	require.NoError(t, err)
	page, found := out.String(), strings.Contains(out.String(), script)
	require.True(t, found, "the page must bring ECharts with it, unchanged")
	page = strings.Replace(page, script, "ECharts", 1)
	golden(t, "example.html", strings.ReplaceAll(page, "><", ">\n<")) // to be read by line
	for _, outside := range []string{"src=", "<link", "@import", "url(", "fetch("} {
		assert.NotContains(t, page, outside, "a page that opens offline has nothing from outside")
	}
}

func TestThePageShowsMarkupAsText(t *testing.T) {
	r := twoConditions()
	const attack = `</script><img onerror=alert(1)>`
	r.Title, r.Runs[0].Condition, r.Charts[0].Title, r.Charts[0].Series[0].Name = attack, attack, attack, attack
	var out bytes.Buffer
	require.NoError(t, r.WriteHTML(&out))
	assert.NotContains(t, out.String(), attack)
}

func TestImages(t *testing.T) {
	underrace.Skip(t, "it runs a JavaScript engine in one goroutine")
	dir := t.TempDir()
	images, err := twoConditions().WriteCharts(dir)
	require.NoError(t, err)
	var files []string
	for _, image := range images {
		files = append(files, image.File)
		svg, err := os.ReadFile(filepath.Join(dir, image.File))
		require.NoError(t, err)
		assert.Contains(t, string(svg), "prefers-color-scheme:dark")
		assert.NoError(t, xml.Unmarshal(svg, new(struct{})), "%s is no XML", image.File)
		if image.Chart == "cpu-local-one" || image.Chart == "keys" {
			golden(t, image.File, string(svg))
		}
	}
	assert.Equal(t, []string{
		"example-latency-curve-local-one.svg", "example-latency-curve-local-quorum-256-vnodes.svg",
		"example-latency-local-one.svg", "example-latency-local-quorum-256-vnodes.svg",
		"example-cpu-local-one.svg", "example-cpu-local-quorum-256-vnodes.svg",
		"example-rounds-p95-local-one.svg", "example-rounds-cpu-local-one.svg",
		"example-rounds-p95-local-quorum-256-vnodes.svg", "example-rounds-cpu-local-quorum-256-vnodes.svg",
		"example-keys.svg", "example-pause.svg",
	}, files)
}

// TestPagesToLookAt writes pages and images for inspection, with -pages DIR.
func TestPagesToLookAt(t *testing.T) {
	if *pages == "" {
		t.Skip("no -pages")
	}
	for _, r := range []*Report{twoConditions(), sixConditions(), example("one", "")} {
		require.NoError(t, os.MkdirAll(*pages, 0o755))
		f, err := os.Create(filepath.Join(*pages, r.Name+".html"))
		require.NoError(t, err)
		require.NoError(t, r.WriteHTML(f))
		require.NoError(t, f.Close())
		_, err = r.WriteCharts(*pages)
		require.NoError(t, err)
	}
}
