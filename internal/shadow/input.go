package shadow

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/qosproxy/qosproxy/internal/lookup"
)

// KeysPerLookup is how many keys of a plain list form a lookup.
const KeysPerLookup = 50

// maxLine is the longest line of an input, in bytes.
const maxLine = 8 << 20

// Parser makes lookups from the lines of an input.
type Parser struct {
	// Body makes a lookup from a line that is a JSON object.
	Body func(line []byte) (*lookup.Request, error)
	// Keys makes a lookup from keys, each the text of a line.
	Keys func(keys []string) (*lookup.Request, error)
}

// input turns the lines of an input into lookups.
type input struct {
	lines  *bufio.Scanner
	parser Parser
	number int64
	// pending is a line that was read ahead; nil for none.
	pending []byte
}

// NewInput returns a function for Run.Next that makes lookups from an input. A line that
// begins with { is a lookup. Other lines are keys: a lookup consists of KeysPerLookup of
// them, or fewer if an empty line or a line with { follows. What cannot be parsed becomes
// an Item with an error.
func NewInput(from io.Reader, parser Parser) func(context.Context) (*Item, error) {
	in := &input{lines: bufio.NewScanner(from), parser: parser}
	in.lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	return func(context.Context) (*Item, error) { return in.next() }
}

// line returns the next line without white space around it; io.EOF after the last one.
func (in *input) line() ([]byte, error) {
	if line := in.pending; line != nil {
		in.pending = nil
		return line, nil
	}
	if !in.lines.Scan() {
		if errors.Is(in.lines.Err(), bufio.ErrTooLong) {
			return nil, fmt.Errorf("line %d is longer than %d MiB", in.number+1, maxLine>>20)
		}
		if err := in.lines.Err(); err != nil {
			return nil, fmt.Errorf("after line %d: %w", in.number, err)
		}
		return nil, io.EOF
	}
	in.number++
	return bytes.TrimSpace(in.lines.Bytes()), nil
}

func (in *input) next() (*Item, error) {
	var keys []string
	first := int64(0)
	for {
		line, err := in.line()
		switch {
		case err != nil && len(keys) > 0 && errors.Is(err, io.EOF):
			return in.item(first, func() (*lookup.Request, error) { return in.parser.Keys(keys) }), nil
		case err != nil:
			return nil, err
		case len(line) > 0 && line[0] != '{':
			if keys = append(keys, strings.Clone(string(line))); len(keys) == 1 {
				first = in.number
			}
			if len(keys) < KeysPerLookup {
				continue
			}
		case len(keys) == 0 && len(line) == 0:
			continue
		case len(keys) == 0:
			body := bytes.Clone(line)
			return in.item(in.number, func() (*lookup.Request, error) { return in.parser.Body(body) }), nil
		case len(line) > 0:
			in.pending = bytes.Clone(line)
		}
		return in.item(first, func() (*lookup.Request, error) { return in.parser.Keys(keys) }), nil
	}
}

// item makes a lookup with parse. A lookup in pages is refused.
func (in *input) item(number int64, parse func() (*lookup.Request, error)) *Item {
	req, err := parse()
	if err == nil && req.Paging {
		err = errors.New("paging: lookups in pages are not compared; leave it out, or set limit_per_key")
	}
	if err == nil && len(req.Keys) == 0 {
		err = errors.New("keys: a lookup needs at least one key")
	}
	if err != nil {
		return &Item{Number: number, Err: err}
	}
	return &Item{Number: number, Request: req}
}
