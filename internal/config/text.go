package config

import (
	"bytes"
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// The limits of a file. They are far beyond what a person writes, and keep a
// file full of brackets or aliases from taking the process down.
const (
	maxFileBytes = 1 << 20
	maxNodes     = 100_000
	maxMerges    = 32 // nested in each other
	maxDepth     = 32 // of brackets
)

// tooDeep returns the first line, from 1, at which brackets or the dashes of
// lists are nested deeper than maxDepth; 0 when there is none. The parser takes
// minutes for a hundred thousand of them. Brackets in strings count too, which
// is harmless as long as they are in pairs.
func tooDeep(data []byte) int {
	depth, number := 0, 0
	for line := range bytes.Lines(data) {
		number++
		indicators := line[:len(line)-len(bytes.TrimLeft(line, " \t-?:"))]
		if len(indicators)-bytes.Count(indicators, []byte(" ")) > maxDepth {
			return number
		}
		for _, c := range line {
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth--
			}
			if depth > maxDepth {
				return number
			}
		}
	}
	return 0
}

// parse calls the parser of the library and returns its panics as errors: some
// malformed texts cause one.
func parse(data []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("is not YAML that can be read (%v)", p)
		}
	}()
	return parser.ParseBytes(data, 0)
}
