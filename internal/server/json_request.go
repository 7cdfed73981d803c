package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/qosproxy/qosproxy/internal/lookup"
)

// batchGetBody is the body of POST /v1/{keyspace}/{table}:batchGet. Keys stay JSON until the
// table is known: a number in them may be wider than a float.
type batchGetBody struct {
	// array are the keys as JSON. keys are set from it once the request is resolved and known to
	// have at most max_keys keys. elements counts towards maxElements.
	array    json.RawMessage
	keys     []json.RawMessage
	elements int

	columns []string
	limit   int
	timeout time.Duration
	explain bool

	soft     time.Duration
	minKeys  int
	optional json.RawMessage

	where       json.RawMessage
	reverse     bool
	consistency string
	paging      bool
	pageTokens  []string
}

// decodeBatchGet decodes a body strictly, and shares its memory. Its errors are of kind
// lookup.ErrInvalid and name the field; they never repeat the body.
func decodeBatchGet(body []byte) (*batchGetBody, error) {
	in := &batchGetBody{}
	if err := bodyMembers(body, in.set); err != nil {
		return nil, err
	}
	return in, nil
}

// bodyMembers calls set for each member of a body in order, with its name and JSON value. The
// error is that of set, or is of kind lookup.ErrInvalid and names the body or a member that
// occurs twice.
func bodyMembers(body []byte, set func(name string, value json.RawMessage) error) error {
	if !utf8.Valid(body) {
		return lookup.Invalid("body", "the body is not valid UTF-8")
	}
	if err := json.Unmarshal(body, &anyJSON{}); err != nil {
		return malformed(err)
	}
	if body = bytes.TrimSpace(body); body[0] != '{' {
		return lookup.Invalid("body", `expected a JSON object such as {"keys": ["sku-1"]}`)
	}
	return eachMember("", body, set)
}

// anyJSON accepts any JSON: decoding into it checks the syntax and copies nothing.
type anyJSON struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (anyJSON) UnmarshalJSON([]byte) error { return nil }

// eachMember is bodyMembers for an object that is valid JSON. within is the prefix of a member
// that occurs twice, in errors. An error of set ends it, so that an object with very many names
// costs no more than one.
func eachMember(within string, object []byte, set func(name string, value json.RawMessage) error) error {
	given := map[string]struct{}{}
	for m := range cutJSON(object) {
		quoted := 1 + stringEnd(m[1:])
		var name string
		if err := json.Unmarshal(m[:quoted], &name); err != nil {
			return malformed(err)
		}
		if _, twice := given[name]; twice {
			return lookup.Invalid(within+clip(name), "given twice")
		}
		given[name] = struct{}{}
		colon := quoted + bytes.IndexByte(m[quoted:], ':')
		if err := set(name, bytes.TrimSpace(m[colon+1:])); err != nil {
			return err
		}
	}
	return nil
}

// set sets one member of the body. A null means that the member is left out, as many clients
// write it, except for keys.
func (in *batchGetBody) set(field string, value json.RawMessage) error {
	null := string(value) == "null"
	if in.elements += countCommas(field, value); in.elements > maxElements {
		return tooManyElements(clip(field))
	}
	switch field {
	case "keys":
		if value[0] != '[' {
			return lookup.Invalid(field, "expected an array of keys")
		}
		in.array = value
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
		in.optional = value
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

// comma separates elements.
var comma = []byte(",")

// countCommas returns the number of commas in a member; for keys, in the key with the most.
func countCommas(field string, value json.RawMessage) int {
	if field != "keys" && field != "optional_keys" || value[0] != '[' {
		return bytes.Count(value, comma)
	}
	most := 0
	for key := range cutJSON(value) {
		most = max(most, bytes.Count(key, comma))
	}
	return most
}

// setNames reads a member that is null or an array of strings; of describes one string.
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

// reverseOrder is the value of order for rows from the last to the first.
const reverseOrder = "reverse"

// jsonText returns the value of a JSON string; false for any other JSON.
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

// parseDuration parses a duration above zero.
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

// malformed converts an error of the JSON decoder.
func malformed(err error) error {
	var syntax *json.SyntaxError
	switch {
	case !errors.As(err, &syntax):
		return lookup.Invalid("body", "not valid JSON")
	case strings.HasPrefix(syntax.Error(), "unexpected end"):
		return lookup.Invalid("body", "the JSON ends early")
	case strings.HasSuffix(syntax.Error(), "after top-level value"):
		return lookup.Invalid("body", "something follows the JSON object")
	default:
		return lookup.Invalid("body", "not valid JSON at byte %d: %s", syntax.Offset, syntax.Error())
	}
}

// clip shortens a name that a client made up.
func clip(name string) string { return lookup.Clip(name, 40) }

// splitArray returns the elements of a valid JSON array, which share its memory.
func splitArray(array []byte) []json.RawMessage {
	out := make([]json.RawMessage, 0, 64)
	for e := range cutJSON(array) {
		out = append(out, e)
	}
	return out
}

// countArray returns how many elements a valid JSON array has.
func countArray(array []byte) (count int) {
	for range cutJSON(array) {
		count++
	}
	return count
}

// cutJSON yields the elements of a valid JSON array, or the members of an object, without the
// white space around them; nothing for nil.
func cutJSON(list []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(list) == 0 {
			return
		}
		list := bytes.TrimSpace(list[1 : len(list)-1])
		if len(list) == 0 {
			return
		}
		start, depth := 0, 0
		for i := 0; i < len(list); i++ {
			switch c := list[i]; {
			case c == '"':
				i += stringEnd(list[i+1:])
			case c == '[' || c == '{':
				depth++
			case c == ']' || c == '}':
				depth--
			case c == ',' && depth == 0:
				if !yield(bytes.TrimSpace(list[start:i:i])) {
					return
				}
				start = i + 1
			}
		}
		yield(bytes.TrimSpace(list[start:]))
	}
}

// stringEnd returns the length of a JSON string after its first quote, including the last one.
func stringEnd(text []byte) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
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
