package reasons

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEveryReasonHasAWordOfItsOwn(t *testing.T) {
	assert.Len(t, words, int(end))
	assert.Empty(t, None.String())
	seen := map[string]bool{}
	for _, r := range All {
		assert.Regexp(t, `^[a-z]+(_[a-z]+)*$`, r.String())
		assert.False(t, seen[r.String()], "%s is the word of two", r)
		seen[r.String()] = true
	}
}

type carrier struct{ Reason }

func (carrier) Error() string          { return "no" }
func (c carrier) ClientReason() Reason { return c.Reason }

func TestOfFindsTheReasonInAnError(t *testing.T) {
	assert.Equal(t, Memory, Of(fmt.Errorf("read: %w", carrier{Memory})))
	assert.Equal(t, None, Of(errors.New("no")))
	assert.Equal(t, None, Of(nil))
}
