package acceptance

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// A generator draws a value of one CQL type, as the JSON of INSERT JSON.
type generator func(r *rand.Rand) string

// quoted returns a JSON string.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // A string always marshals.
	}
	return string(b)
}

// oddTexts are texts that are easily mishandled.
var oddTexts = []string{"a", " ", "\"", "\\", "\n\t\u0001", "é", "日本", "🫖", "</script>", "\u2028", "null", "0", "{}", strings.Repeat("x", 1000)}

func oneOf[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func randomText(r *rand.Rand) string {
	if r.IntN(4) == 0 {
		return oneOf(r, oddTexts) + strconv.FormatUint(uint64(r.Uint32()), 10)
	}
	return strconv.FormatUint(r.Uint64(), 16)
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func randomUUID(r *rand.Rand, version byte) string {
	b := randomBytes(r, 16)
	b[6] = b[6]&0x0f | version<<4
	b[8] = b[8]&0x3f | 0x80
	return quoted(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

// signed draws an integer with this number of bits, and its limits more often than by chance.
func signed(bits int) generator {
	return func(r *rand.Rand) string {
		least := int64(-1) << (bits - 1)
		switch r.IntN(8) {
		case 0:
			return strconv.FormatInt(least, 10)
		case 1:
			return strconv.FormatInt(-(least + 1), 10)
		default:
			return strconv.FormatInt(int64(r.Uint64())>>(64-bits), 10)
		}
	}
}

// natives draws values of every type that may be the sole column of a partition
// key.
var natives = map[string]generator{
	"ascii":   func(r *rand.Rand) string { return quoted(fmt.Sprintf("%x\x7f \"'", r.Uint64())) },
	"bigint":  signed(64),
	"blob":    func(r *rand.Rand) string { return quoted("0x" + hex.EncodeToString(randomBytes(r, r.IntN(40)+1))) },
	"boolean": func(r *rand.Rand) string { return strconv.FormatBool(r.IntN(2) == 0) },
	"date": func(r *rand.Rand) string {
		return quoted(fmt.Sprintf("%04d-%02d-%02d", 1583+r.IntN(4000), 1+r.IntN(12), 1+r.IntN(28)))
	},
	"decimal": func(r *rand.Rand) string { return fmt.Sprintf("%de%d", int64(r.Uint64()), r.IntN(60)-30) },
	"double":  func(r *rand.Rand) string { return fmt.Sprint(r.NormFloat64() * float64(uint64(1)<<r.IntN(60))) },
	"float": func(r *rand.Rand) string {
		return fmt.Sprint(float32(r.NormFloat64() * float64(uint64(1)<<r.IntN(40))))
	},
	"inet": func(r *rand.Rand) string {
		if r.IntN(2) == 0 {
			return quoted(fmt.Sprintf("%d.%d.%d.%d", r.IntN(256), r.IntN(256), r.IntN(256), r.IntN(256)))
		}
		return quoted(fmt.Sprintf("%x:%x::%x:%x", r.IntN(65535)+1, r.IntN(65536), r.IntN(65536), r.IntN(65536)))
	},
	"int":      signed(32),
	"smallint": signed(16),
	"text":     func(r *rand.Rand) string { return quoted(randomText(r)) },
	"time": func(r *rand.Rand) string {
		return quoted(fmt.Sprintf("%02d:%02d:%02d.%09d", r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1_000_000_000)))
	},
	"timestamp": func(r *rand.Rand) string {
		return quoted(fmt.Sprintf("%04d-%02d-%02d %02d:%02d:%02d.%03dZ", 1583+r.IntN(4000), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1000)))
	},
	"timeuuid": func(r *rand.Rand) string { return randomUUID(r, 1) },
	"tinyint":  signed(8),
	"uuid":     func(r *rand.Rand) string { return randomUUID(r, 4) },
	"varint":   func(r *rand.Rand) string { return fmt.Sprintf("%d%d", int64(r.Uint64()), r.Uint64()) },
}

// listOf draws a JSON array of up to most values.
func listOf(g generator, most int) generator {
	return func(r *rand.Rand) string {
		values := make([]string, r.IntN(most+1))
		for i := range values {
			values[i] = g(r)
		}
		return "[" + strings.Join(values, ",") + "]"
	}
}

// mapOf draws a JSON object whose names are the JSON of the keys.
func mapOf(key, value generator, most int) generator {
	return func(r *rand.Rand) string {
		members := map[string]string{}
		for range r.IntN(most + 1) {
			k := key(r)
			if !strings.HasPrefix(k, `"`) {
				k = quoted(k)
			}
			members[k] = value(r)
		}
		out := make([]string, 0, len(members))
		for k, v := range members {
			out = append(out, k+":"+v)
		}
		return "{" + strings.Join(out, ",") + "}"
	}
}

// tupleOf draws a JSON array with one value of each generator.
func tupleOf(of ...generator) generator {
	return func(r *rand.Rand) string {
		values := make([]string, len(of))
		for i, g := range of {
			values[i] = g(r)
		}
		return "[" + strings.Join(values, ",") + "]"
	}
}

// orNull draws null now and then.
func orNull(g generator) generator {
	return func(r *rand.Rand) string {
		if r.IntN(4) == 0 {
			return "null"
		}
		return g(r)
	}
}

// nested draws values of types with parameters, by column type.
func nested() map[string]generator {
	n := natives
	address := func(r *rand.Rand) string {
		return fmt.Sprintf(`{"street":%s,"\"Number\"":%s,"tags":%s}`, orNull(n["text"])(r), orNull(n["int"])(r), orNull(listOf(n["text"], 3))(r))
	}
	duration := func(r *rand.Rand) string {
		return quoted(oneOf(r, []string{"1y2mo3w4d5h6m7s8ms9us10ns", "-3mo2d", "0s", "12h30m", "1ns", "89h4m48s"}))
	}
	return ofTheVersion(map[string]generator{
		"duration":                              duration,
		"list<int>":                             listOf(n["int"], 4),
		"list<frozen<list<text>>>":              listOf(listOf(n["text"], 3), 3),
		"set<text>":                             listOf(n["text"], 4),
		"set<frozen<tuple<int, text>>>":         listOf(tupleOf(n["int"], n["text"]), 3),
		"map<text, int>":                        mapOf(n["text"], n["int"], 4),
		"map<int, text>":                        mapOf(n["int"], n["text"], 4),
		"map<uuid, frozen<map<text, boolean>>>": mapOf(n["uuid"], mapOf(n["text"], n["boolean"], 2), 3),
		"map<timestamp, double>":                mapOf(n["timestamp"], n["double"], 3),
		"frozen<map<blob, decimal>>":            mapOf(n["blob"], n["decimal"], 3),
		"tuple<int, text, frozen<list<date>>>":  tupleOf(orNull(n["int"]), orNull(n["text"]), orNull(listOf(n["date"], 2))),
		"frozen<address>":                       address,
		"address":                               address,
		"list<frozen<address>>":                 listOf(address, 3),
		"vector<float, 3>":                      tupleOf(n["float"], n["float"], n["float"]),
		"vector<text, 2>":                       tupleOf(n["text"], n["text"]),
		"vector<int, 2>":                        tupleOf(n["int"], n["int"]),
		"list<duration>":                        listOf(duration, 2),
	})
}
