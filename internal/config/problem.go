package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Error is one mistake in the configuration.
type Error struct {
	// File is the name of the file, and Line and Column, from 1, the place of
	// the mistake in it; 0 when the mistake is not in the file.
	File         string
	Line, Column int
	// Variable is the environment variable at fault, if one is.
	Variable string
	// Key is the path of the key, such as tables[0].sla.target; empty when the
	// mistake is in no key.
	Key string
	// Message says what is wrong and what to do.
	Message string
	// Excerpt is the line of the file with a caret below the mistake; empty when
	// there is none to show.
	Excerpt string
}

// Error returns the problem in one line: file:line:column: key: message.
func (p *Error) Error() string {
	var b strings.Builder
	switch {
	case p.Variable != "":
		b.WriteString(p.Variable)
		b.WriteString(": ")
	case p.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Column)
	case p.File != "":
		b.WriteString(p.File)
		b.WriteString(": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key)
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Explain returns the text of an error of this package, with the line of the
// file after each problem that has one.
func Explain(err error) string {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		parts := make([]string, 0, len(joined.Unwrap()))
		for _, e := range joined.Unwrap() {
			parts = append(parts, Explain(e))
		}
		return strings.Join(parts, "\n")
	}
	var p *Error
	if errors.As(err, &p) && p.Excerpt != "" {
		return err.Error() + "\n" + p.Excerpt
	}
	return err.Error()
}

// place is where a value was given.
type place struct {
	line, column int
	variable     string
}

// origin is where the values of a configuration come from.
type origin struct {
	// file is the name of the file, and lines are its lines; empty without one.
	file  string
	lines []string
	// at is the place of each key path that was given.
	at map[string]place
}

// problem returns a problem with the value at path. If that was not given, its
// place is that of the nearest enclosing key that was.
func (o *origin) problem(path, format string, args ...any) *Error {
	p := &Error{Key: path, Message: fmt.Sprintf(format, args...)}
	if o == nil {
		return p
	}
	for at := path; at != ""; at = parent(at) {
		if where, ok := o.at[at]; ok {
			o.locate(p, where)
			return p
		}
	}
	p.File = o.file
	return p
}

// secret matches lines that may hold a password or a token; they are not shown.
var secret = regexp.MustCompile(`(?i)(passw(or)?d|tokens?)["']?\s*:`)

// locate sets the place and the excerpt of a problem.
func (o *origin) locate(p *Error, where place) {
	if where.variable != "" {
		p.Variable = where.variable
		return
	}
	p.File, p.Line, p.Column = o.file, where.line, where.column
	if where.line < 1 || where.line > len(o.lines) {
		return
	}
	line := o.lines[where.line-1]
	if secret.MatchString(line) {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%5d | %s\n      | ", where.line, line)
	for range min(where.column-1, utf8.RuneCountInString(line)) {
		r, size := utf8.DecodeRuneInString(line)
		line = line[size:]
		if r != '\t' { // kept, so that the caret stays below what it points at
			r = ' '
		}
		b.WriteRune(r)
	}
	b.WriteByte('^')
	p.Excerpt = b.String()
}

// parent returns the path of the key or list around a path, empty at the top.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// join returns one error for the problems, in the order of the file; nil for
// none.
func join(problems []*Error) error {
	slices.SortStableFunc(problems, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}
