package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/qosproxy/qosproxy/internal/lookup"
)

// batchGetBody is the body of POST /v1/{keyspace}/{table}:batchGet. Keys stay
// JSON until the table is known: a number in them may be wider than a float.
type batchGetBody struct {
	keys    []json.RawMessage
	columns []string
	limit   int
	timeout time.Duration
	explain bool

	soft     time.Duration
	minKeys  int
	optional []json.RawMessage

	where       []member
	reverse     bool
	consistency string
	paging      bool
	pageTokens  []string
}

// member is one member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// decodeBatchGet reads a body strictly. Its errors are of kind
// lookup.ErrInvalid and name the field; they never repeat the body.
func decodeBatchGet(body []byte) (*batchGetBody, error) {
	if !utf8.Valid(body) {
		return nil, lookup.Invalid("body", "the body is not valid UTF-8")
	}
	members, err := membersOf(body)
	if err != nil {
		return nil, err
	}
	in := &batchGetBody{}
	for _, m := range members {
		if err := in.set(m.name, m.value); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// membersOf returns the members of a JSON object, in their order. Its errors are of kind
// lookup.ErrInvalid and name the body, or the member that is given twice.
func membersOf(body []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	open, err := d.Token()
	if err != nil {
		return nil, malformed(err)
	}
	if open != json.Delim('{') {
		return nil, lookup.Invalid("body", `expected a JSON object such as {"keys": ["sku-1"]}`)
	}
	var members []member
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, malformed(err)
		}
		// Within an object every name is a string, or Token fails.
		m := member{}
		m.name, _ = token.(string)
		if slices.ContainsFunc(members, func(o member) bool { return o.name == m.name }) {
			return nil, lookup.Invalid(clip(m.name), "given twice")
		}
		if err := d.Decode(&m.value); err != nil {
			return nil, malformed(err)
		}
		members = append(members, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, malformed(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, lookup.Invalid("body", "something follows the JSON object")
	}
	return members, nil
}

// set takes one member of the body. A null leaves a member out, as many clients
// write it, except for keys.
func (in *batchGetBody) set(field string, value json.RawMessage) error {
	null := string(value) == "null"
	switch field {
	case "keys":
		if value[0] != '[' {
			return lookup.Invalid(field, "expected an array of keys")
		}
		in.keys = splitArray(value)
	case "columns":
		return setNames(field, "a column name", value, &in.columns)
	case "page_tokens":
		return setNames(field, `a token, "" for the first page`, value, &in.pageTokens)
	case "paging":
		if json.Unmarshal(value, &in.paging) != nil {
			return lookup.Invalid(field, "expected true or false")
		}
	case "limit_per_key":
		if json.Unmarshal(value, &in.limit) != nil {
			return lookup.Invalid(field, "expected an integer")
		}
	case "min_keys":
		if json.Unmarshal(value, &in.minKeys) != nil {
			return lookup.Invalid(field, "expected an integer")
		}
	case "optional_keys":
		if null {
			return nil
		}
		if value[0] != '[' {
			return lookup.Invalid(field, "expected an array of keys that are among keys, too")
		}
		in.optional = splitArray(value)
	case "timeout":
		return setDuration(field, value, &in.timeout)
	case "soft_deadline":
		return setDuration(field, value, &in.soft)
	case "where":
		return in.setWhere(value)
	case "order":
		if order, ok := jsonText(value); !null && (!ok || order != reverseOrder) {
			return lookup.Invalid(field, `expected "reverse"; leave it out for clustering order`)
		}
		in.reverse = !null
	case "consistency":
		if in.consistency, _ = jsonText(value); !null && in.consistency == "" {
			return lookup.Invalid(field, `expected a consistency level in quotes, such as "LOCAL_QUORUM"`)
		}
	case "explain":
		if json.Unmarshal(value, &in.explain) != nil {
			return lookup.Invalid(field, "expected true or false")
		}
	default:
		return lookup.Invalid(clip(field), "no such field; there are keys, columns, where, order, limit_per_key, paging, page_tokens, consistency, timeout, soft_deadline, min_keys, optional_keys and explain")
	}
	return nil
}

// setNames reads a member that is an array of strings or null; of is what each is.
func setNames(field, of string, value json.RawMessage, to *[]string) error {
	var names []*string
	if json.Unmarshal(value, &names) != nil {
		return lookup.Invalid(field, "expected an array, of which each element is %s", of)
	}
	for i, name := range names {
		if name == nil {
			return lookup.Invalid(fmt.Sprintf("%s[%d]", field, i), "expected %s, got null", of)
		}
		*to = append(*to, *name)
	}
	return nil
}

// reverseOrder asks for rows from the last to the first.
const reverseOrder = "reverse"

// jsonText returns a JSON string; false for other JSON.
func jsonText(value json.RawMessage) (string, bool) {
	var s *string
	if json.Unmarshal(value, &s) != nil || s == nil {
		return "", false
	}
	return *s, true
}

// setDuration reads a member that is a duration or null.
func setDuration(field string, value json.RawMessage, to *time.Duration) (err error) {
	var s *string
	if json.Unmarshal(value, &s) != nil {
		return lookup.Invalid(field, `expected a duration in quotes, such as "50ms"`)
	}
	if s != nil {
		*to, err = parseDuration(field, *s)
	}
	return err
}

// parseDuration reads a duration above zero.
func parseDuration(field, s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, lookup.Invalid(field, `expected a duration such as "50ms"`)
	}
	if d <= 0 {
		return 0, lookup.Invalid(field, "%s is not above zero; leave it out for none", d)
	}
	return d, nil
}

// malformed words an error of the JSON decoder.
func malformed(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return lookup.Invalid("body", "not valid JSON at byte %d: %s", syntax.Offset, syntax.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return lookup.Invalid("body", "the JSON ends early")
	default:
		return lookup.Invalid("body", "not valid JSON")
	}
}

// clip shortens a name that a client made up.
func clip(name string) string {
	const most = 40
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

// splitArray cuts a valid JSON array at its commas. The elements keep the white
// space around them, and share its memory.
func splitArray(array []byte) []json.RawMessage {
	list := array[1 : len(array)-1]
	if len(bytes.TrimSpace(list)) == 0 {
		return nil
	}
	out := make([]json.RawMessage, 0, 64)
	start, depth, quoted := 0, 0, false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case quoted:
			if c == '\\' {
				i++
			}
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 0:
			out = append(out, list[start:i:i])
			start = i + 1
		}
	}
	return append(out, list[start:])
}

// appendCompact appends valid JSON without the white space between its tokens.
func appendCompact(dst, src []byte) []byte {
	quoted := false
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case quoted && c == '\\':
			dst = append(dst, c, src[i+1])
			i++
			continue
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ' ' || c == '\n' || c == '\r' || c == '\t'):
			continue
		}
		dst = append(dst, src[i])
	}
	return dst
}
