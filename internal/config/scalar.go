package config

import (
	"encoding"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/planner"
)

// form parses and formats a type of another package that has no text form, or
// not the one used here.
type form struct {
	parse  func(string) (any, error)
	format func(any) string
}

var forms = map[reflect.Type]form{
	reflect.TypeFor[time.Duration](): {
		func(s string) (any, error) { return parseDuration(s) },
		func(v any) string { return formatDuration(v.(time.Duration)) },
	},
	reflect.TypeFor[planner.Grouping](): {
		func(s string) (any, error) { return planner.ParseGrouping(s) },
		func(v any) string { return v.(planner.Grouping).String() },
	},
	reflect.TypeFor[identity.Priority](): {
		func(s string) (any, error) { return parsePriority(s) },
		func(v any) string { return v.(identity.Priority).String() },
	},
	reflect.TypeFor[slog.Level](): {
		func(s string) (any, error) { return parseLevel(s) },
		func(v any) string { return strings.ToLower(v.(slog.Level).String()) },
	},
	reflect.TypeFor[fs.FileMode](): {
		func(s string) (any, error) { return parseMode(s) },
		func(v any) string { return fmt.Sprintf("%#o", v.(fs.FileMode)) },
	},
}

func parsePriority(s string) (identity.Priority, error) {
	p, ok := identity.ParsePriority(strings.ToLower(s))
	if !ok {
		return 0, fmt.Errorf("%q is not a priority; use interactive, standard or batch", s)
	}
	return p, nil
}

func parseLevel(s string) (slog.Level, error) {
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if strings.EqualFold(s, l.String()) {
			return l, nil
		}
	}
	return 0, fmt.Errorf("%q is not a log level; use debug, info, warn or error", s)
}

func parseMode(s string) (fs.FileMode, error) {
	v, err := strconv.ParseUint(strings.TrimPrefix(s, "0o"), 8, 32)
	if err != nil || v > 0o777 {
		return 0, fmt.Errorf("%q is not a file mode; write 0660", s)
	}
	return fs.FileMode(v), nil
}

// isScalar reports whether values of a type, or of the type it points to, are
// written as one scalar.
func isScalar(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	_, known := forms[t]
	return known || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) ||
		t.Kind() != reflect.Struct && t.Kind() != reflect.Slice
}

// setScalar sets dst from a text. The error says what is wrong with it.
func setScalar(dst reflect.Value, text string) error {
	if f, ok := forms[dst.Type()]; ok {
		v, err := f.parse(text)
		if err == nil {
			dst.Set(reflect.ValueOf(v))
		}
		return err
	}
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](dst.Addr()); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch dst.Kind() {
	case reflect.String:
		dst.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		dst.SetBool(text == "true")
	case reflect.Int:
		v, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		dst.SetInt(int64(v))
	case reflect.Float64:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%q is not a number", text)
		}
		dst.SetFloat(v)
	default:
		return fmt.Errorf("a %s cannot be configured", dst.Type())
	}
	return nil
}

// scalarText returns the text that setScalar reads back.
func scalarText(v reflect.Value) (string, error) {
	if f, ok := forms[v.Type()]; ok {
		return f.format(v.Interface()), nil
	}
	if m, ok := reflect.TypeAssert[encoding.TextMarshaler](v); ok {
		text, err := m.MarshalText()
		return string(text), err
	}
	if v.Kind() == reflect.Float64 { // without an exponent, which YAML would want in quotes
		return strconv.FormatFloat(v.Float(), 'f', -1, 64), nil
	}
	return fmt.Sprint(v.Interface()), nil
}
