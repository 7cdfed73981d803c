package cqltype

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// marshalPackage is the package of Cassandra's own type classes.
const marshalPackage = "org.apache.cassandra.db.marshal."

// classKinds maps classes without parameters to kinds.
var classKinds = map[string]Kind{
	"AsciiType": ASCII, "LongType": BigInt, "BytesType": Blob, "BooleanType": Boolean, "CounterColumnType": Counter,
	"SimpleDateType": Date, "DecimalType": Decimal, "DoubleType": Double, "DurationType": Duration, "EmptyType": Empty,
	"FloatType": Float, "InetAddressType": Inet, "Int32Type": Int, "ShortType": SmallInt, "UTF8Type": Text,
	"TimeType": Time, "TimestampType": Timestamp, "DateType": Timestamp, "TimeUUIDType": TimeUUID,
	"LegacyTimeUUIDType": TimeUUID, "ByteType": TinyInt, "UUIDType": UUID, "IntegerType": VarInt,
}

// ParseClass returns the type that a Java class of Cassandra stands for, with or without the
// package. The native protocol uses such names for types that have no code of their own:
// org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.FloatType , 3).
// ReversedType and FrozenType yield the type that they enclose. A class that is no type of
// CQL yields a Custom type, whose Name is the whole class without Cassandra's package and
// spaces.
func ParseClass(class string) (*Type, error) {
	p := &classParser{src: strings.ReplaceAll(strings.ReplaceAll(class, " ", ""), marshalPackage, "")}
	t, err := p.typ(0)
	if err == nil && p.pos < len(p.src) {
		err = fmt.Errorf("unexpected %q after the class", excerpt(p.src[p.pos:]))
	}
	if err != nil {
		return nil, fmt.Errorf("class %q: %w", excerpt(class), err)
	}
	return t, nil
}

// classParser is a cursor over the name of a class.
type classParser struct {
	src string
	pos int
}

// typ parses one class at the cursor.
func (p *classParser) typ(depth int) (*Type, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d types", maxDepth)
	}
	start := p.pos
	name := p.word()
	if name == "" {
		return nil, fmt.Errorf("expected a class at byte %d", start)
	}
	kind, native := classKinds[name]
	switch {
	case native:
		return &Type{Kind: kind}, nil
	case name == "UserType" && p.accept('('):
		return p.userType(depth)
	case name == "VectorType" && p.accept('('):
		return p.vector(depth)
	}
	outer := &Type{}
	switch name {
	case "ListType":
		outer.Kind = List
	case "SetType":
		outer.Kind = Set
	case "MapType":
		outer.Kind = Map
	case "TupleType":
		outer.Kind = Tuple
	case "ReversedType", "FrozenType":
	default:
		return &Type{Kind: Custom, Name: name + p.parentheses()}, nil
	}
	if !p.accept('(') {
		return nil, fmt.Errorf("%s lacks its parameters", name)
	}
	for {
		e, err := p.typ(depth + 1)
		if err != nil {
			return nil, err
		}
		outer.Elems = append(outer.Elems, e)
		if p.accept(')') {
			break
		}
		if !p.accept(',') {
			return nil, fmt.Errorf("expected , or ) at byte %d", p.pos)
		}
	}
	return outer.complete(name)
}

// complete checks the number of parameters of a class, and unwraps ReversedType and
// FrozenType.
func (t *Type) complete(class string) (*Type, error) {
	want := 1
	switch t.Kind {
	case Map:
		want = 2
	case Tuple:
		want = len(t.Elems)
	default:
	}
	if len(t.Elems) != want {
		return nil, fmt.Errorf("%s takes %d types, got %d", class, want, len(t.Elems))
	}
	if t.Kind == Unknown {
		return t.Elems[0], nil
	}
	return t, nil
}

// userType parses "keyspace,name,field:class,…)", with all names but that of the
// keyspace in hexadecimal.
func (p *classParser) userType(depth int) (*Type, error) {
	t := &Type{Kind: UDT, Keyspace: p.word()}
	var err error
	if !p.accept(',') {
		return nil, fmt.Errorf("UserType lacks its name at byte %d", p.pos)
	}
	if t.Name, err = p.hex(); err != nil {
		return nil, err
	}
	for !p.accept(')') {
		if !p.accept(',') {
			return nil, fmt.Errorf("expected , or ) at byte %d", p.pos)
		}
		field, err := p.hex()
		if err != nil {
			return nil, err
		}
		if !p.accept(':') {
			return nil, fmt.Errorf("a field of UserType lacks its class at byte %d", p.pos)
		}
		e, err := p.typ(depth + 1)
		if err != nil {
			return nil, err
		}
		t.Fields, t.Elems = append(t.Fields, field), append(t.Elems, e)
	}
	return t, nil
}

// vector parses "class,dimension)".
func (p *classParser) vector(depth int) (*Type, error) {
	e, err := p.typ(depth + 1)
	if err != nil {
		return nil, err
	}
	if !p.accept(',') {
		return nil, fmt.Errorf("VectorType lacks its dimension at byte %d", p.pos)
	}
	n, err := strconv.ParseInt(p.word(), 10, 32)
	if err != nil || n < 1 || !p.accept(')') {
		return nil, fmt.Errorf("VectorType has no dimension before byte %d", p.pos)
	}
	return &Type{Kind: Vector, Elems: []*Type{e}, Dimension: int(n)}, nil
}

// word reads the name of a class or keyspace, or a number.
func (p *classParser) word() string {
	start := p.pos
	for p.pos < len(p.src) && (isIdentifierByte(p.src[p.pos]) || p.src[p.pos] == '.' || p.src[p.pos] == '$') {
		p.pos++
	}
	return p.src[start:p.pos]
}

func (p *classParser) hex() (string, error) {
	word := p.word()
	b, err := hex.DecodeString(word)
	if err != nil {
		return "", fmt.Errorf("%q is no name in hexadecimal", excerpt(word))
	}
	return string(b), nil
}

// parentheses reads a text in balanced parentheses at the cursor; it returns an empty string
// when none begins there.
func (p *classParser) parentheses() string {
	start, open := p.pos, 0
	for p.pos < len(p.src) {
		switch p.src[p.pos] {
		case '(':
			open++
		case ')':
			open--
		}
		if open <= 0 && (p.pos == start || p.src[p.pos] != ')') {
			break
		}
		p.pos++
		if open == 0 {
			break
		}
	}
	return p.src[start:p.pos]
}

func (p *classParser) accept(c byte) bool {
	if p.pos < len(p.src) && p.src[p.pos] == c {
		p.pos++
		return true
	}
	return false
}
