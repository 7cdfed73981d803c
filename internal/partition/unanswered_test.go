package partition

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/reasons"
)

func TestAReasonHasOneStatus(t *testing.T) {
	err := errors.New("no")
	for _, why := range reasons.All {
		res := Unanswered(why, err)
		if StatusOf(why) == Pending { // only requests have it
			why = reasons.Internal
		}
		assert.Equal(t, Result{Status: StatusOf(why), Reason: why, Err: err}, res)
		assert.Contains(t, []Status{TimedOut, Unavailable, Shed, TooLarge, Failed}, res.Status, "%s", why)
	}
	assert.Equal(t, reasons.Internal, Unanswered(reasons.None, err).Reason)
	assert.Equal(t, reasons.Internal, Unanswered(255, err).Reason)
}

// unanswered are the statuses that only Unanswered may set.
var unanswered = []string{"TimedOut", "Unavailable", "Shed", "TooLarge", "Failed"}

// setsStatus returns where a file sets the status of a result to one of unanswered, in a composite
// literal or by an assignment.
func setsStatus(fset *token.FileSet, file *ast.File) (places []string) {
	named := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		if !ok || !slices.Contains(unanswered, s.Sel.Name) {
			return false
		}
		of, ok := s.X.(*ast.Ident)
		return ok && of.Name == "partition"
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Status" && named(n.Value) {
				places = append(places, fset.Position(n.Pos()).String())
			}
		case *ast.AssignStmt:
			if slices.ContainsFunc(n.Rhs, named) {
				places = append(places, fset.Position(n.Pos()).String())
			}
		}
		return true
	})
	return places
}

// TestOnlyUnansweredMakesSuchResults verifies that only Unanswered makes results of keys that are
// not answered, outside of tests and this package. Made otherwise, they could lack a reason.
func TestOnlyUnansweredMakesSuchResults(t *testing.T) {
	files := 0
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "lab" { // it answers no client
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "internal/partition\"") {
			return err
		}
		files++
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, text, 0)
		if err != nil {
			return err
		}
		assert.Empty(t, setsStatus(fset, file), "use partition.Unanswered")
		return nil
	}))
	assert.Greater(t, files, 20)

	fset := token.NewFileSet()
	control, err := parser.ParseFile(fset, "x.go", `package x
func f() { r := partition.Result{Status: partition.Shed}; r.Status = partition.Failed }`, 0)
	require.NoError(t, err)
	assert.Len(t, setsStatus(fset, control), 2, "control")
}
