package config

import (
	"fmt"
	"os"
	"reflect"
	"slices"
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
		return nil, unreadable(err)
	}
	return build(data, path, env)
}

// Parse parses the text of a file, without the environment, and validates the result. name
// is that of the file, for messages.
func Parse(data []byte, name string) (*Config, error) {
	return build(data, name, nil)
}

// LoadAdmin reads how to reach the admin listener of a proxy, which may run with what the file said
// before: only a mistake in the keys of that listener is an error. If the file is no YAML they are
// those of env and of Default.
func LoadAdmin(path string, env []string) (Listen, error) {
	var data []byte
	if path != "" {
		var err error
		if data, err = os.ReadFile(path); err != nil {
			return Listen{}, unreadable(err)
		}
	}
	c, problems := decode(data, path, env)
	problems = slices.DeleteFunc(problems, func(p *Error) bool {
		return p.Key != "listen" && p.Key != "listen.admin" && !strings.HasPrefix(p.Key, "listen.tls.admin")
	})
	return c.Listen, join(problems)
}

func unreadable(err error) error {
	return fmt.Errorf("read the configuration: %w; give the path of a readable file with --config", err)
}

func build(data []byte, name string, env []string) (*Config, error) {
	c, problems := decode(data, name, env)
	if err := join(problems); err != nil {
		return nil, err
	}
	return c, nil
}

// decode returns a configuration with all mistakes in it.
func decode(data []byte, name string, env []string) (*Config, []*Error) {
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
	return &c, d.problems
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
