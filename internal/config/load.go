package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Load reads the file at path, or nothing when path is empty. The variables of env, in the
// form of os.Environ, override it. Load validates the outcome. Keys that neither gives
// have the values of Default. The error joins one *Error for each mistake; Explain shows
// them with their lines.
func Load(path string, env []string) (*Config, error) {
	if path == "" {
		return build(nil, "", env)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w; give the path of a readable file with --config", err)
	}
	return build(data, path, env)
}

// Parse reads the text of a file, without the environment, and validates the
// outcome. The name is that of the file, for messages.
func Parse(data []byte, name string) (*Config, error) {
	return build(data, name, nil)
}

func build(data []byte, name string, env []string) (*Config, error) {
	text := strings.TrimPrefix(string(data), "\ufeff")
	c := Default()
	c.origin = &origin{file: name, at: map[string]place{}}
	if name != "" {
		c.origin.lines = strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	}
	d := &decoder{origin: c.origin, anchors: map[string]ast.Node{}, maxBytes: maxFileBytes, maxNodes: maxNodes}
	d.document(reflect.ValueOf(&c).Elem(), []byte(text))
	d.environment(&c, env)

	refused := map[string]bool{}
	for _, p := range d.problems {
		refused[p.Key] = true
	}
	for _, p := range c.problems() {
		if !within(p.Key, refused) {
			d.problems = append(d.problems, p)
		}
	}
	if err := join(d.problems); err != nil {
		return nil, err
	}
	return &c, nil
}

// within reports whether a path or what is around it has been refused already:
// what could not be read is the default here, of which there is nothing to say.
func within(path string, refused map[string]bool) bool {
	for ; path != ""; path = parent(path) {
		if refused[path] {
			return true
		}
	}
	return false
}
