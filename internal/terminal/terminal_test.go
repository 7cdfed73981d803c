package terminal

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAFileAndABufferAreNoTerminals(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/f")
	require.NoError(t, err)
	defer f.Close()
	assert.False(t, Is(f))
	assert.False(t, Is(new(bytes.Buffer)))
}

func TestPaint(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		style  Style
		colour bool
		want   string
	}{
		"a colour":           {"late", Red, true, "\x1b[31mlate\x1b[0m"},
		"two parameters":     {"PASS", BoldGreen, true, "\x1b[1;32mPASS\x1b[0m"},
		"no colours":         {"late", Red, false, "late"},
		"no style":           {"late", "", true, "late"},
		"nothing to be seen": {"", Red, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Paint(c.text, c.style, c.colour)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.text, Bare(got))
		})
	}
}

func TestFit(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		width int
		want  string
	}{
		"short enough":                  {"sku-1", 5, "sku-1"},
		"too long":                      {"sku-12", 5, "sku-…"},
		"no half of a wide letter":      {"東京タワー", 6, "東京…"},
		"no half of an emoji":           {"a👨‍👩‍👧b", 3, "a…"},
		"a style takes no room":         {"\x1b[31mlate\x1b[0m", 4, "\x1b[31mlate\x1b[0m"},
		"a style ends where it is cut":  {"\x1b[1;31mmuch too late\x1b[0m", 5, "\x1b[1;31mmuch…\x1b[0m"},
		"cut behind a style":            {"\x1b[31mlate\x1b[0m, and more", 6, "\x1b[31mlate\x1b[0m,…"},
		"nothing but the sign of a cut": {"late", 1, "…"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Fit(c.text, c.width)
			assert.Equal(t, c.want, got)
			assert.LessOrEqual(t, Width(got), c.width)
			assert.Equal(t, 0, strings.Count(got, "\x1b[")%2, "a style that goes on")
		})
	}
}
