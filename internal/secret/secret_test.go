package secret

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const password = "hunter2"

// holder has an exported and an unexported secret.
type holder struct {
	Name     string
	Password Text
	hidden   Text
	Pointer  *Text
	List     []Text
}

func TestNoWayToShowASecretShowsIt(t *testing.T) {
	s := New(password)
	h := holder{"app", s, s, &s, []Text{s}}
	shown := map[string]func() string{
		"error": func() string { return fmt.Errorf("log in with %v: %w", s, errors.New("refused")).Error() },
		"JSON":  func() string { b, err := json.Marshal(h); require.NoError(t, err); return string(b) },
		"XML":   func() string { b, err := xml.Marshal(h); require.NoError(t, err); return string(b) },
		"YAML":  func() string { b, err := yaml.Marshal(h); require.NoError(t, err); return string(b) },
		"slog": func() string {
			var b bytes.Buffer
			slog.New(slog.NewJSONHandler(&b, nil)).Info("m", "s", s, "h", h, "p", &h)
			slog.New(slog.NewTextHandler(&b, nil)).Info("m", "s", s, "h", h, "p", &h)
			return b.String()
		},
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p"} {
		shown[verb] = func() string { return fmt.Sprintf(verb, s) + fmt.Sprintf(verb, h) + fmt.Sprintf(verb, &h) }
	}
	for name, show := range shown {
		t.Run(name, func(t *testing.T) {
			assert.NotContains(t, show(), password)
			assert.NotContains(t, show(), fmt.Sprintf("%x", password))
		})
	}
	assert.Equal(t, password, s.Reveal())
}

func TestEmpty(t *testing.T) {
	assert.True(t, New("").Empty())
	assert.Empty(t, Text{}.Reveal())
}
