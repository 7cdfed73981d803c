package suggest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEdits(t *testing.T) {
	assert.Equal(t, 0, edits("abc", "abc"))
	assert.Equal(t, 3, edits("", "abc"))
	assert.Equal(t, 1, edits("abc", "acb"))
	assert.Equal(t, 3, edits("kitten", "sitting"))
}

func TestHint(t *testing.T) {
	assert.Equal(t, "; did you mean price?", Hint("pirce", []string{"name", "price"}))
	assert.Empty(t, Hint("colour", []string{"name", "price"}))
	assert.Empty(t, Hint("price", nil))
	long := strings.Repeat("x", maxWritten)
	assert.NotEmpty(t, Hint(long, []string{long}))
	assert.Empty(t, Hint(long+"x", []string{long}), "which would take long for a name of a mebibyte")
}
