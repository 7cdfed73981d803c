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

// keyNamer names keys in reports: in clear, or by a hash with a secret of this process,
// which prevents finding a key by trying keys. A key has the same hash in all reports
// of the process. A token would not do: its hash has no secret.
type keyNamer struct {
	clear  bool
	secret [sha256.Size]byte
}

func newKeyNamer(clear bool) *keyNamer {
	n := &keyNamer{clear: clear}
	_, _ = rand.Read(n.secret[:]) // never fails
	return n
}

// name returns a key as JSON: as in a request, or hashed if it cannot or must not be
// shown.
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

// clearKey returns a key as JSON: its single value, or an array of its values.
func clearKey(definition *schema.Table, routing []byte) (json.RawMessage, bool) {
	columns := definition.PartitionKey
	if len(columns) == 1 {
		text, err := columns[0].Type.AppendJSON(nil, routing)
		return text, err == nil && json.Valid(text)
	}
	out := []byte{'['}
	for i, c := range columns {
		// The encoding is that of CompositeType; see partition.NewKey.
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
