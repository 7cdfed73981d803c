package cqltype

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// secretMark is the part of a value that no error may contain. It begins like a
// value of several types, so that parsers get as far as possible.
const secretMark = "7391946"

// values generates JSON values with the mark, most of which are valid for no type.
func values() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		around := rapid.SampledFrom([]string{"", "x", "1", "-", "0x", "2011-02-", "1h", ".", ":", "é", "\x00"})
		text := around.Draw(t, "before") + secretMark + around.Draw(t, "after")
		switch rapid.IntRange(0, 5).Draw(t, "form") {
		case 0:
			return json.Number(secretMark + rapid.SampledFrom([]string{"", ".5", "e400", "00000000000000000000000"}).Draw(t, "more"))
		case 1:
			return []any{text, 1}
		case 2:
			return map[string]any{text: text}
		case 3:
			return map[string]any{text: 1, "street": text}
		case 4:
			return []any{map[string]any{"k": []any{text}}}
		default:
			return text
		}
	})
}

// No error over a value, such as a partition key, repeats what the value holds.
func TestErrorsDoNotHoldValues(t *testing.T) {
	types := []*Type{mustParse(t, "address")}
	for _, name := range []string{"text", "ascii", "int", "bigint", "smallint", "tinyint", "varint", "decimal", "float", "double", "boolean", "blob", "uuid",
		"timeuuid", "inet", "date", "time", "timestamp", "duration", "counter", "list<int>", "set<inet>", "map<int, uuid>", "map<text, int>",
		"tuple<int, date>", "vector<float, 2>"} {
		types = append(types, mustParse(t, name))
	}
	failed := 0
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom(types).Draw(t, "type")
		data, err := json.Marshal(values().Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "broken") {
			data = data[:rapid.IntRange(0, len(data)).Draw(t, "until")]
		}
		errs := map[string]error{}
		_, errs["json"] = typ.EncodeJSON(data)
		_, errs["text"] = typ.EncodeText(strings.Trim(string(data), `"`))
		_, errs["key"] = KeyFromJSON([]*Type{typ}, []string{"id"}, 1, data)
		_, errs["composite"] = KeyFromJSON([]*Type{typ, typ}, []string{"id", "day"}, 2, data)
		_, errs["composite text"] = PartitionKeyFromText([]*Type{typ, typ}, []string{"id", "day"}, string(data))
		for how, err := range errs {
			if err != nil {
				failed++
				if strings.Contains(err.Error(), secretMark) {
					t.Fatalf("%s of %s as %s: %v", how, data, typ, err)
				}
			}
		}
	})
	if failed < 20 {
		t.Fatalf("%d errors are too few to tell", failed)
	}
}
