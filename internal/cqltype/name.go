package cqltype

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// String returns the type as CQL writes it: lower case, a space after a comma,
// frozen<…> where the type is frozen, names quoted where they need it. Parse
// reads it back.
func (t *Type) String() string {
	return string(t.appendName(nil))
}

func (t *Type) appendName(dst []byte) []byte {
	if t.Frozen {
		dst = append(dst, "frozen<"...)
	}
	switch t.Kind {
	case UDT:
		dst = append(dst, Identifier(t.Name)...)
	case Custom:
		dst = append(dst, '\'')
		dst = append(dst, strings.ReplaceAll(t.Name, "'", "''")...)
		dst = append(dst, '\'')
	default:
		dst = append(dst, t.Kind.String()...)
	}
	if t.composite() && t.Kind != UDT {
		dst = append(dst, '<')
		for i, e := range t.Elems {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = e.appendName(dst)
		}
		if t.Kind == Vector {
			dst = append(dst, ", "...)
			dst = strconv.AppendInt(dst, int64(t.Dimension), 10)
		}
		dst = append(dst, '>')
	}
	if t.Frozen {
		dst = append(dst, '>')
	}
	return dst
}

// ColumnJSONName returns the name by which SELECT JSON calls a column or a UDT
// field: the name itself, or, if it has an upper-case letter, the name within
// double quotes, which are part of the JSON string. The result is not escaped.
func ColumnJSONName(name string) string {
	if strings.ToLower(name) == name {
		return name
	}
	return `"` + name + `"`
}

// storedName undoes ColumnJSONName by INSERT JSON's rule: a name within double
// quotes loses only these, any other is lower-cased.
func storedName(name string) string {
	if len(name) >= 2 && name[0] == '"' && name[len(name)-1] == '"' {
		return name[1 : len(name)-1]
	}
	return strings.ToLower(name)
}

// Identifier returns a name as CQL writes it: quoted if CQL would not read it back bare.
func Identifier(name string) string {
	_, native := nativeKinds[name]
	bare := name != "" && !native && !reservedWords[strings.ToUpper(name)] && 'a' <= name[0] && name[0] <= 'z'
	for i := 0; bare && i < len(name); i++ {
		bare = isIdentifierByte(name[i]) && (name[i] < 'A' || name[i] > 'Z')
	}
	if bare {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// reservedWords are the words that CQL does not allow as a bare identifier
// (reserved_keywords.txt of Cassandra 5.0).
var reservedWords = func() map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(`ADD ALLOW ALTER AND APPLY ASC AUTHORIZE BATCH BEGIN BY COLUMNFAMILY CREATE
		DELETE DESC DESCRIBE DROP ENTRIES EXECUTE FROM FULL GRANT IF IN INDEX INFINITY INSERT INTO IS KEYSPACE
		LIMIT MATERIALIZED MODIFY NAN NORECURSIVE NOT NULL OF ON OR ORDER PRIMARY RENAME REVOKE SCHEMA SELECT
		SET TABLE TO TOKEN TRUNCATE UNLOGGED UPDATE USE USING VIEW WHERE WITH`) {
		m[w] = true
	}
	return m
}()

// maxExcerpt is how many bytes of a name an error may quote.
const maxExcerpt = 40

// excerpt shortens a name for an error message.
func excerpt(s string) string {
	if len(s) <= maxExcerpt {
		return s
	}
	n := maxExcerpt - len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
