package fake

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/suggest"
)

// statuses are the statuses that a fault can give to a key.
var statuses = []partition.Status{
	partition.NotFound, partition.TimedOut, partition.Unavailable, partition.Shed, partition.TooLarge, partition.Failed,
}

// words are the words of which a fault in a header consists.
var words = []string{"delay", "status", "keys", "refuse", "retry_after", "probability"}

// parseHeader parses the faults that a request asks for, such as
//
//	delay=40ms
//	status=TIMED_OUT;keys=sku-9,sku-8 | delay=40ms
//	refuse;retry_after=250ms
//
// A backslash escapes the separator after it. Keys are written as on the command line of
// qosproxy get.
func parseHeader(t *schema.Table, values []string) ([]*fault, error) {
	var out []*fault
	for _, value := range values {
		for _, text := range cut(value, '|') {
			f, err := parseFault(t, text)
			if err != nil {
				return nil, err
			}
			out = append(out, f)
		}
	}
	return out, nil
}

func parseFault(t *schema.Table, text string) (*fault, error) {
	f := &fault{probability: 1, retryAfter: defaultRetryAfter}
	var given []string
	for _, field := range cut(text, ';') {
		word, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		word = strings.TrimSpace(word)
		if slices.Contains(given, word) {
			return nil, fmt.Errorf("%s is given twice", word)
		}
		given = append(given, word)
		if err := f.set(t, word, strings.TrimSpace(value)); err != nil {
			return nil, err
		}
	}
	return f, f.check()
}

// set sets the value of one word of a fault.
func (f *fault) set(t *schema.Table, word, value string) (err error) {
	switch word {
	case "delay":
		f.delay, err = parseDelay(value)
	case "retry_after":
		f.retryAfter, err = parseDelay(value)
	case "status":
		f.status, err = parseStatus(value)
	case "probability":
		var p config.Percent
		p, err = config.ParsePercent(value)
		f.probability = float64(p)
	case "refuse":
		if f.refuse = value == "" || value == "true"; !f.refuse {
			err = fmt.Errorf("%q: write refuse alone", value)
		}
	case "keys":
		for _, key := range cut(value, ',') {
			var k [][]byte
			if k, err = textKey(t, strings.TrimSpace(key)); err != nil {
				break
			}
			f.keys = append(f.keys, k)
		}
	default:
		return unknown(word, "word", words)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", word, err)
	}
	return nil
}

// check refuses a fault that does nothing, and one that combines refuse with a status.
func (f *fault) check() error {
	switch {
	case f.refuse && f.status != partition.Pending:
		return errors.New("a request that is refused has no status of its keys; leave one of the two out")
	case !f.refuse && f.status == partition.Pending && f.delay == 0:
		return errors.New("a fault has a delay, a status or refuse")
	case f.probability <= 0 || f.probability > 1:
		return errors.New("a probability is above 0% and at most 100%")
	}
	return nil
}

// cut splits a text at each unescaped separator at. It removes a backslash before the
// separator and keeps all others.
func cut(text string, at byte) []string {
	var parts []string
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == at:
			i++
			part.WriteByte(at)
		case text[i] == '\\' && i+1 < len(text):
			part.WriteString(text[i : i+2])
			i++
		case text[i] == at:
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(text[i])
		}
	}
	return append(parts, part.String())
}

func parseDelay(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not a duration above 0; write 40ms or 2s", text)
	}
	return d, nil
}

func parseStatus(text string) (partition.Status, error) {
	names := make([]string, len(statuses))
	for i, s := range statuses {
		if names[i] = s.String(); names[i] == text {
			return s, nil
		}
	}
	return partition.Pending, unknown(text, "status", names)
}

// unknown returns the error of an unknown word, with the known word that may be meant.
func unknown(word, what string, known []string) error {
	if near := suggest.Nearest(word, known); near != "" {
		return fmt.Errorf("no %s %q, did you mean %q?", what, word, near)
	}
	return fmt.Errorf("no %s %q; use %s", what, word, strings.Join(known, ", "))
}

// textKey returns the components of a key as written on a command line.
func textKey(t *schema.Table, text string) ([][]byte, error) {
	types, names := t.KeyTypes()
	return cqltype.KeyFromText(types, names, len(t.PartitionKey), text)
}
