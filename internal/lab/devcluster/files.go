package devcluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// logbackXML is a logback configuration that sends a node's log to one file, whose path is its
// argument.
const logbackXML = `<configuration>
  <appender name="FILE" class="ch.qos.logback.core.FileAppender">
    <file>%s</file>
    <encoder><pattern>%%-5level [%%thread] %%date{ISO8601} %%F:%%L - %%msg%%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
`

// nodeSettings returns a node's cassandra.yaml before settings of callers are applied. Caches and
// thread pools are small so that a dozen nodes fit on a laptop. Write timeouts are long because the
// nodes share a disk.
func nodeSettings(n *Node, seeds []string, tokens []int64) map[string]any {
	data := filepath.Join(n.dir, "data")
	settings := map[string]any{
		"cluster_name":               "qosproxy development",
		"partitioner":                "org.apache.cassandra.dht.Murmur3Partitioner",
		"endpoint_snitch":            "GossipingPropertyFileSnitch",
		"storage_compatibility_mode": "NONE",
		"num_tokens":                 n.cfg.NumTokens,
		"listen_address":             n.ip,
		"rpc_address":                n.ip,
		"native_transport_port":      cqlPort,
		"storage_port":               storagePort,
		"seed_provider": []any{map[string]any{
			"class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
			"parameters": []any{map[string]any{"seeds": strings.Join(seeds, ",")}},
		}},
		"data_file_directories":  []string{filepath.Join(data, "data")},
		"commitlog_directory":    filepath.Join(data, "commitlog"),
		"saved_caches_directory": filepath.Join(data, "saved_caches"),
		"hints_directory":        filepath.Join(data, "hints"),
		"cdc_raw_directory":      filepath.Join(data, "cdc_raw"),

		"auto_bootstrap":            n.bootstrap,
		"auto_snapshot":             false,
		"commitlog_sync":            "periodic",
		"commitlog_sync_period":     "10000ms",
		"commitlog_segment_size":    "8MiB",
		"commitlog_total_space":     "64MiB",
		"file_cache_enabled":        true, // otherwise every read decompresses a chunk
		"file_cache_size":           "64MiB",
		"networking_cache_size":     "16MiB",
		"key_cache_size":            "8MiB",
		"counter_cache_size":        "1MiB",
		"memtable_heap_space":       "96MiB",
		"memtable_offheap_space":    "32MiB",
		"concurrent_reads":          16,
		"concurrent_writes":         16,
		"concurrent_counter_writes": 8,
		"concurrent_compactors":     1,
		"write_request_timeout":     "10s",
		"phi_convict_threshold":     12,
	}
	if len(tokens) > 0 {
		words := make([]string, len(tokens))
		for i, token := range tokens {
			words[i] = strconv.FormatInt(token, 10)
		}
		settings["initial_token"] = strings.Join(words, ",")
	}
	return settings
}

// writeFiles makes the node's folder with all files that its process reads.
func (n *Node) writeFiles(seeds []string, tokens []int64, clusterYAML map[string]any) error {
	settings := nodeSettings(n, seeds, tokens)
	maps.Copy(settings, clusterYAML)
	maps.Copy(settings, n.cfg.ExtraYAML)
	settings = ofVersion(settings, Version)
	// JSON is YAML, and unlike YAML it needs no library to be written right.
	yaml, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return fmt.Errorf("write cassandra.yaml of node %d: %w", n.number, err)
	}
	files := map[string]string{
		"cassandra.yaml":              string(yaml) + "\n",
		"cassandra-rackdc.properties": fmt.Sprintf("dc=%s\nrack=%s\n", n.cfg.DC, n.cfg.Rack),
		"logback.xml":                 fmt.Sprintf(logbackXML, n.LogPath()),
	}
	if err := os.MkdirAll(filepath.Join(n.dir, "data", "triggers"), 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Configure changes settings of the node's cassandra.yaml, given as for Cassandra 5.0, with effect
// from its next start. Other settings stay. It fails if the file cannot be read or written.
func (n *Node) Configure(settings map[string]any) error {
	path := filepath.Join(n.dir, "cassandra.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("configure node %d: %w", n.number, err)
	}
	all := map[string]any{}
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("configure node %d: %s: %w", n.number, path, err)
	}
	maps.Copy(all, ofVersion(settings, Version))
	if text, err = json.MarshalIndent(all, "", "  "); err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("configure node %d: %w", n.number, err)
	}
	return nil
}
