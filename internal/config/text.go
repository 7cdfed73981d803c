package config

import (
	"bytes"
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// The limits of a file. Far beyond what a person writes, they keep a file full
// of brackets or of aliases from taking the process down.
const (
	maxFileBytes = 1 << 20
	maxNodes     = 100_000
	maxMerges    = 32 // one within the other
	maxDepth     = 32 // of brackets
)

// tooDeep returns the first line, from 1, at which brackets or the dashes of
// lists are nested deeper than maxDepth; 0 when there is none. The parser takes
// minutes for a hundred thousand of them. Brackets in texts count too, which
// does no harm as long as they are in pairs.
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

// parse is the parser of the library, with its panics as errors: some malformed
// texts trip it.
func parse(data []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("is not YAML that can be read (%v)", p)
		}
	}()
	return parser.ParseBytes(data, 0)
}
