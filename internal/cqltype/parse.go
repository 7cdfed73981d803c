package cqltype

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxDepth is how deeply a type may nest. Real schemas stay below five; the
// bound keeps every recursion over a type short.
const maxDepth = 32

// Parse returns the type with a CQL name, as a person or the type column of
// system_schema.columns writes it: int, map<text, frozen<list<int>>>,
// vector<float, 3>, frozen<"My Type">, 'org.example.CustomType'.
//
// udt looks up user-defined types, in the keyspace given last unless the name
// has one of its own. It may be nil where there are none, and returns nil or an
// error for a type that it does not know.
func Parse(name string, udt func(keyspace, name string) (*Type, error), keyspace string) (*Type, error) {
	p := &nameParser{src: name, udt: udt, keyspace: keyspace}
	t, err := p.typ(0)
	if err == nil {
		p.space()
		if p.pos < len(p.src) {
			err = fmt.Errorf("unexpected %q after the type", excerpt(p.src[p.pos:]))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("CQL type %q: %w", excerpt(name), err)
	}
	return t, nil
}

// nativeKinds are the kinds that have a name and no parameters.
var nativeKinds = func() map[string]Kind {
	m := map[string]Kind{"varchar": Text}
	for k := ASCII; k < List; k++ {
		m[k.String()] = k
	}
	return m
}()

// nameParser is a cursor over the name of a type.
type nameParser struct {
	src      string
	pos      int
	udt      func(keyspace, name string) (*Type, error)
	keyspace string
}

// typ parses one type at the cursor.
func (p *nameParser) typ(depth int) (*Type, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d types", maxDepth)
	}
	p.space()
	if p.pos < len(p.src) && p.src[p.pos] == '\'' {
		class, err := p.quoted('\'')
		if err != nil {
			return nil, err
		}
		return &Type{Kind: Custom, Name: class}, nil
	}
	name, quoted, err := p.identifier()
	if err != nil {
		return nil, err
	}
	if !quoted {
		lower := strings.ToLower(name)
		if p.accept('<') {
			return p.parametrized(lower, depth)
		}
		if k, ok := nativeKinds[lower]; ok {
			return &Type{Kind: k}, nil
		}
		name = lower
	}
	return p.userDefined(name)
}

// parametrized parses what follows "word<".
func (p *nameParser) parametrized(word string, depth int) (*Type, error) {
	if word == "vector" {
		return p.vector(depth)
	}
	elems, err := p.params(depth)
	if err != nil {
		return nil, err
	}
	arity := 1
	t := &Type{Elems: elems}
	switch word {
	case "frozen":
	case "list":
		t.Kind = List
	case "set":
		t.Kind = Set
	case "map":
		t.Kind, arity = Map, 2
	case "tuple":
		t.Kind, arity = Tuple, len(elems)
	default:
		return nil, fmt.Errorf("%q takes no parameters", excerpt(word))
	}
	if len(elems) != arity {
		return nil, fmt.Errorf("%s takes %d types, got %d", word, arity, len(elems))
	}
	if word == "frozen" {
		return freeze(elems[0])
	}
	return t, nil
}

// freeze returns the frozen form of the type.
func freeze(t *Type) (*Type, error) {
	if !t.composite() {
		return nil, fmt.Errorf("frozen<> is for collections, tuples and user-defined types, not for %s", t)
	}
	frozen := *t
	frozen.Frozen = true
	return &frozen, nil
}

// vector parses what follows "vector<".
func (p *nameParser) vector(depth int) (*Type, error) {
	elem, err := p.typ(depth + 1)
	if err != nil {
		return nil, err
	}
	if elem.fixedSize() == 0 {
		return nil, errors.New("a vector may not have empty elements")
	}
	if !p.accept(',') {
		return nil, errors.New("a vector takes a type and a dimension: vector<float, 3>")
	}
	p.space()
	start := p.pos
	for p.pos < len(p.src) && isDigit(p.src[p.pos]) {
		p.pos++
	}
	n, err := strconv.ParseInt(p.src[start:p.pos], 10, 32)
	if err != nil || n == 0 {
		return nil, fmt.Errorf("the dimension of a vector is a number from 1 to 2147483647, got %q", excerpt(p.src[start:p.pos]))
	}
	if !p.accept('>') {
		return nil, errors.New("missing > after the dimension of a vector")
	}
	return &Type{Kind: Vector, Elems: []*Type{elem}, Dimension: int(n)}, nil
}

// params parses "type, type>".
func (p *nameParser) params(depth int) ([]*Type, error) {
	var elems []*Type
	for {
		t, err := p.typ(depth + 1)
		if err != nil {
			return nil, err
		}
		elems = append(elems, t)
		switch {
		case p.accept('>'):
			return elems, nil
		case !p.accept(','):
			return nil, fmt.Errorf("expected , or > at byte %d", p.pos)
		}
	}
}

// userDefined looks up a UDT whose first name has been read.
func (p *nameParser) userDefined(name string) (*Type, error) {
	keyspace := p.keyspace
	if p.accept('.') {
		second, quoted, err := p.identifier()
		if err != nil {
			return nil, err
		}
		if !quoted {
			second = strings.ToLower(second)
		}
		keyspace, name = name, second
	}
	if p.udt == nil {
		return nil, fmt.Errorf("unknown type %q", excerpt(name))
	}
	t, err := p.udt(keyspace, name)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, fmt.Errorf("keyspace %q has no user-defined type %q", excerpt(keyspace), excerpt(name))
	}
	return t, nil
}

// identifier reads a bare or double-quoted identifier.
func (p *nameParser) identifier() (name string, quoted bool, err error) {
	p.space()
	if p.pos < len(p.src) && p.src[p.pos] == '"' {
		name, err = p.quoted('"')
		return name, true, err
	}
	start := p.pos
	for p.pos < len(p.src) && isIdentifierByte(p.src[p.pos]) {
		p.pos++
	}
	if p.pos == start {
		return "", false, fmt.Errorf("expected the name of a type at byte %d", start)
	}
	return p.src[start:p.pos], false, nil
}

// quoted reads the quoted string at the cursor; a quote within it is doubled.
func (p *nameParser) quoted(quote byte) (string, error) {
	var b strings.Builder
	start := p.pos
	for p.pos++; p.pos < len(p.src); p.pos++ {
		if p.src[p.pos] == quote {
			if p.pos+1 == len(p.src) || p.src[p.pos+1] != quote {
				p.pos++
				if b.Len() == 0 {
					return "", fmt.Errorf("empty name at byte %d", start)
				}
				return b.String(), nil
			}
			p.pos++
		}
		b.WriteByte(p.src[p.pos])
	}
	return "", fmt.Errorf("the quote at byte %d is not closed", start)
}

// accept skips white space and c, and reports whether c was there.
func (p *nameParser) accept(c byte) bool {
	p.space()
	if p.pos < len(p.src) && p.src[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

// space skips white space.
func (p *nameParser) space() {
	for p.pos < len(p.src) && strings.IndexByte(" \t\r\n", p.src[p.pos]) >= 0 {
		p.pos++
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isIdentifierByte(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}
