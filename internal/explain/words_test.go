package explain

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryWordOfTheExecutorHasAValue reads the words from the sources, because only an
// explained lookup would fail on a word without a value.
func TestEveryWordOfTheExecutorHasAValue(t *testing.T) {
	words := constants(t, "../executor")
	for _, word := range words["Avoided"] {
		_, err := Avoidance(word)
		assert.NoError(t, err)
	}
	for _, word := range words["NotHedged"] {
		_, err := NotHedged(word)
		assert.NoError(t, err)
	}
	for _, word := range words["Kind"] {
		if _, err := Kind(word); word != "probe" { // which belongs to no lookup
			assert.NoError(t, err)
		}
	}
	for _, word := range words["Outcome"] {
		_, err := Outcome(word)
		assert.NoError(t, err)
	}
	for _, word := range words["Reason"] {
		_, err := AttemptError(word)
		assert.NoError(t, err)
	}
	for _, of := range []string{"Avoided", "NotHedged", "Kind", "Outcome", "Reason"} {
		assert.NotEmpty(t, words[of], of)
	}
}

// constants returns the strings that a package declares as exported constants, by their type.
func constants(t *testing.T, dir string) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	found := map[string][]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			of, ok := spec.Type.(*ast.Ident)
			for i, value := range spec.Values {
				literal, isLiteral := value.(*ast.BasicLit)
				if !ok || !isLiteral || literal.Kind != token.STRING || !spec.Names[i].IsExported() {
					continue
				}
				word, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				found[of.Name] = append(found[of.Name], word)
			}
			return true
		})
	}
	return found
}
