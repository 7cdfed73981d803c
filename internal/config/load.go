package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Load reads the file at path, or none when path is empty. The variables of env, in the
// form of os.Environ, override it. Keys that neither sets have the values of Default. Load
// validates the result. Unless the file cannot be read, the error joins one *Error for
// each mistake; Explain shows them with their lines.
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

// Parse parses the text of a file, without the environment, and validates the result. name
// is that of the file, for messages.
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

// within reports whether a path or one of its parents has been refused already. Such a
// value still has its default, so a second problem with it would mislead.
func within(path string, refused map[string]bool) bool {
	for ; path != ""; path = parent(path) {
		if refused[path] {
			return true
		}
	}
	return false
}
