package admin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"

	"github.com/qosproxy/qosproxy/internal/schema"
)

// keyNamer names keys in reports: by a hash that cannot be found by trying keys, as
// its secret is known to this process alone, and that is the same in all reports of
// the process; or in clear. A token would be no secret: its hash has none.
type keyNamer struct {
	clear  bool
	secret [sha256.Size]byte
}

func newKeyNamer(clear bool) *keyNamer {
	n := &keyNamer{clear: clear}
	_, _ = rand.Read(n.secret[:]) // never fails
	return n
}

// name returns JSON: a key in clear is as in a request, and hashed when it cannot be
// shown so.
func (n *keyNamer) name(table string, definition *schema.Table, routing []byte) json.RawMessage {
	if n.clear && definition != nil {
		if text, ok := clearKey(definition, routing); ok {
			return text
		}
	}
	mac := hmac.New(sha256.New, n.secret[:])
	_, _ = mac.Write([]byte(table))
	_, _ = mac.Write([]byte{0})
	_, _ = mac.Write(routing)
	return json.RawMessage(`"#` + hex.EncodeToString(mac.Sum(nil)[:8]) + `"`)
}

// clearKey writes a key as JSON: its value, or an array of several.
func clearKey(definition *schema.Table, routing []byte) (json.RawMessage, bool) {
	columns := definition.PartitionKey
	if len(columns) == 1 {
		text, err := columns[0].Type.AppendJSON(nil, routing)
		return text, err == nil && json.Valid(text)
	}
	out := []byte{'['}
	for i, c := range columns {
		// CompositeType; see partition.NewKey.
		if len(routing) < 2 {
			return nil, false
		}
		n := int(binary.BigEndian.Uint16(routing))
		if len(routing) < n+3 {
			return nil, false
		}
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = c.Type.AppendJSON(out, routing[2:2+n]); err != nil {
			return nil, false
		}
		routing = routing[n+3:]
	}
	return append(out, ']'), true
}
