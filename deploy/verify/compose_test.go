package verify

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const composeFolder = "../compose"

// project reads a compose file as `docker compose config` does: a field that is not
// in the specification is an error.
func project(t *testing.T, file string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{file}, cli.WithName("qosproxy"), cli.WithProfiles([]string{"*"}))
	require.NoError(t, err)
	return options.LoadProject(t.Context())
}

func TestComposeFileIsStrictlyRead(t *testing.T) {
	for name, content := range map[string]string{
		"an unknown field":       "services: {a: {image: b, imagee: c}}",
		"an unknown dependency":  "services: {a: {image: b, depends_on: [c]}}",
		"a volume there is not":  "services: {a: {image: b, volumes: ['cache:/d']}}",
		"a port that is no port": "services: {a: {image: b, ports: ['x:y']}}",
	} {
		file := filepath.Join(t.TempDir(), "compose.yaml")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		_, err := project(t, file)
		assert.Error(t, err, name)
	}
}

func TestComposeStartsInOrder(t *testing.T) {
	p, err := project(t, filepath.Join(composeFolder, "compose.yaml"))
	require.NoError(t, err)
	assert.Equal(t, []string{"cassandra-1", "cassandra-2", "cassandra-3", "grafana", "load", "prometheus", "qosproxy", "traffic"}, p.ServiceNames())

	racks := map[string]bool{}
	for i, name := range []string{"cassandra-1", "cassandra-2", "cassandra-3"} {
		node := p.Services[name]
		require.NotNil(t, node.HealthCheck, name)
		assert.Regexp(t, `^(docker\.io/library/)?cassandra:\d+\.\d+\.\d+$`, node.Image)
		require.NotNil(t, node.Environment["CASSANDRA_RACK"])
		racks[*node.Environment["CASSANDRA_RACK"]] = true
		if i > 0 {
			// Nodes that join at the same time get tokens that they do not know of.
			assert.Equal(t, types.ServiceConditionHealthy, node.DependsOn["cassandra-"+strconv.Itoa(i)].Condition, name)
		}
	}
	assert.Len(t, racks, 3, "a replica in each rack")

	assert.Equal(t, types.ServiceConditionHealthy, p.Services["load"].DependsOn["cassandra-3"].Condition)
	assert.Equal(t, types.ServiceConditionCompletedSuccessfully, p.Services["qosproxy"].DependsOn["load"].Condition)
	assert.Equal(t, types.HealthCheckTest{"CMD", "/qosproxy", "health", "--config", "/etc/qosproxy/qosproxy.yaml"}, p.Services["qosproxy"].HealthCheck.Test)
	for name, s := range p.Services {
		assert.NotContains(t, s.Image, ":latest", name)
		if name == "qosproxy" {
			assert.True(t, s.ReadOnly, name)
			assert.Equal(t, []string{"ALL"}, s.CapDrop, name)
			require.NotNil(t, s.Build, name)
			assert.FileExists(t, filepath.Join(s.Build.Context, "Dockerfile"))
		}
		for _, port := range s.Ports {
			assert.Equal(t, "127.0.0.1", port.HostIP, "%s: nothing here asks for a password", name)
		}
	}
}

// TestComposeLoadsWhatTheProxyReads holds that each command of the image is one, and that
// the rows are those of the table that the proxy serves and the traffic asks for.
func TestComposeLoadsWhatTheProxyReads(t *testing.T) {
	p, err := project(t, filepath.Join(composeFolder, "compose.yaml"))
	require.NoError(t, err)
	for name, s := range p.Services {
		if s.Build != nil && len(s.Command) > 0 {
			out, err := exec.CommandContext(t.Context(), proxy, "help", s.Command[0]).CombinedOutput()
			require.NoError(t, err)
			assert.Contains(t, string(out), "\n  qosproxy "+s.Command[0]+" ", "%s: the image has this command", name)
		}
	}
	tables := parse(t, readFile(t, composeFolder+"/qosproxy.yaml")).Tables
	require.Len(t, tables, 1)
	load := readFile(t, composeFolder+"/load.sh")
	assert.Contains(t, load, "CREATE TABLE IF NOT EXISTS "+tables[0].Name+" ")
	assert.Contains(t, load, "INSERT INTO "+tables[0].Name+" ")

	// The traffic, for a moment.
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var lookup struct{ Keys []string }
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&lookup))
		assert.Len(t, lookup.Keys, 50)
		assert.Equal(t, "/v1/"+strings.Replace(tables[0].Name, ".", "/", 1)+":batchGet", r.URL.Path)
		for _, key := range lookup.Keys {
			assert.Regexp(t, `^sku-0[0-2]\d{3}$`, key)
		}
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, err := w.Write([]byte(`{"results": []}`))
		assert.NoError(t, err)
	}))
	defer server.Close()
	out, err := exec.CommandContext(t.Context(), "python3", composeFolder+"/traffic.py", server.URL, "0.5").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Greater(t, asked.Load(), int64(5))
}

// TestComposeMountsWhatIsThere also holds that nothing is written into this tree.
func TestComposeMountsWhatIsThere(t *testing.T) {
	p, err := project(t, filepath.Join(composeFolder, "compose.yaml"))
	require.NoError(t, err)
	mounted := map[string]bool{}
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			_, err := os.Stat(v.Source)
			assert.NoError(t, err, "%s: docker would make a folder of it", name)
			assert.True(t, v.ReadOnly, "%s: %s", name, v.Source)
			mounted[filepath.Base(v.Source)] = true
		}
	}
	for _, file := range []string{"qosproxy.yaml", "prometheus.yaml", "recording.yaml", "alerts.yaml", "qosproxy.json", "load.sh", "traffic.py"} {
		assert.True(t, mounted[file], file)
	}
}

func TestComposeAddressesAgree(t *testing.T) {
	p, err := project(t, filepath.Join(composeFolder, "compose.yaml"))
	require.NoError(t, err)
	configuration := readFile(t, composeFolder+"/qosproxy.yaml")
	out, err := checkConfig(t, configuration)
	require.NoError(t, err, out)

	c := parse(t, configuration)
	for _, name := range c.Cassandra.ContactPoints {
		require.Contains(t, p.Services, name)
		assert.Equal(t, c.Cassandra.LocalDC, *p.Services[name].Environment["CASSANDRA_DC"])
	}
	published := map[uint32]bool{}
	for _, port := range p.Services["qosproxy"].Ports {
		published[port.Target] = true
	}
	for name, address := range c.Listen {
		assert.True(t, published[uint32(portOf(t, address))], name)
		assert.True(t, isOpen(address), name)
	}

	var scraped struct {
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string                       `yaml:"job_name"`
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
		Global map[string]string
	}
	var tree any
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, composeFolder+"/prometheus.yaml")), &tree))
	decodeStrictly(t, tree, &scraped)
	require.Len(t, scraped.ScrapeConfigs, 1)
	assert.Equal(t, "qosproxy", scraped.ScrapeConfigs[0].JobName, "what the alerts and the dashboard ask for")
	assert.Equal(t, []string{"qosproxy:" + strconv.Itoa(int(portOf(t, c.Listen["admin"])))}, scraped.ScrapeConfigs[0].StaticConfigs[0].Targets)
	for _, file := range scraped.RuleFiles {
		assert.True(t, mountsAt(p.Services["prometheus"], "/etc/prometheus/"+file), file)
	}

	datasource := readFile(t, composeFolder+"/grafana/datasources/prometheus.yaml")
	assert.Contains(t, datasource, "url: http://prometheus:9090")
	provider := readFile(t, composeFolder+"/grafana/dashboards/qosproxy.yaml")
	assert.Contains(t, provider, "path: /var/lib/grafana/dashboards")
	assert.True(t, mountsAt(p.Services["grafana"], "/var/lib/grafana/dashboards/qosproxy.json"))
}

func mountsAt(s types.ServiceConfig, target string) bool {
	for _, v := range s.Volumes {
		if v.Target == target || strings.HasPrefix(target, v.Target+"/") {
			return true
		}
	}
	return false
}
