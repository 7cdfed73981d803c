package bench

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// columnTypes are the types that a column of a profile may have.
var columnTypes = []string{"text", "blob", "int", "bigint", "double", "boolean", "uuid"}

// Every value of a dataset is derived from a number, so none has to be stored. A text or blob is a
// slice of one long noise.

// noiseBytes is the length of the noise, without the longest value.
const noiseBytes = 1 << 20

// newNoise returns printable text that looks random and needs no escape in JSON.
func newNoise(seed uint64) []byte {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	out := make([]byte, noiseBytes+maxBytes)
	for i := range out {
		if i%8 == 0 {
			seed = mix(seed)
		}
		out[i] = alphabet[seed>>(8*(i%8))%64]
	}
	return out
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, 2014): every bit of the result depends on all of x.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// appendCell appends the value for number in CQL's encoding.
func (c *Column) appendCell(to, noise []byte, number uint64) []byte {
	switch c.Type {
	case "text", "blob":
		return append(to, c.piece(noise, number)...)
	case "int":
		return binary.BigEndian.AppendUint32(to, uint32(number))
	case "boolean":
		return append(to, byte(number&1))
	case "double":
		return binary.BigEndian.AppendUint64(to, math.Float64bits(float64(number>>11)/(1<<20)))
	case "uuid":
		to = binary.BigEndian.AppendUint64(to, number)
		to = binary.BigEndian.AppendUint64(to, mix(number))
		id := to[len(to)-16:]
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4, RFC 9562
		return to
	default: // bigint
		return binary.BigEndian.AppendUint64(to, number)
	}
}

// piece returns the text or blob for number. It is a slice of noise.
func (c *Column) piece(noise []byte, number uint64) []byte {
	size := c.Bytes[number%uint64(len(c.Bytes))]
	from := number >> 32 % noiseBytes
	return noise[from : from+uint64(size)]
}

// goValue returns the value of a cell as a Go value for the driver.
func (c *Column) goValue(cell []byte) any {
	switch c.Type {
	case "text":
		return string(cell)
	case "int":
		return int32(binary.BigEndian.Uint32(cell))
	case "boolean":
		return cell[0] != 0
	case "double":
		return math.Float64frombits(binary.BigEndian.Uint64(cell))
	case "bigint":
		return int64(binary.BigEndian.Uint64(cell))
	default: // blob, uuid
		return bytes.Clone(cell)
	}
}

// protoValue returns the value of a cell of a key, for a gRPC request.
func (c *Column) protoValue(cell []byte) *qosproxyv1.Value {
	switch c.Type {
	case "text":
		return &qosproxyv1.Value{Kind: &qosproxyv1.Value_Text{Text: string(cell)}}
	case "bigint":
		return &qosproxyv1.Value{Kind: &qosproxyv1.Value_Bigint{Bigint: int64(binary.BigEndian.Uint64(cell))}}
	case "int":
		return &qosproxyv1.Value{Kind: &qosproxyv1.Value_Int{Int: int32(binary.BigEndian.Uint32(cell))}}
	default:
		return &qosproxyv1.Value{Kind: &qosproxyv1.Value_Uuid{Uuid: bytes.Clone(cell)}}
	}
}

// equalProto reports whether v, a value of a gRPC answer, equals the cell.
func (c *Column) equalProto(v *qosproxyv1.Value, cell []byte) bool {
	switch kind := v.GetKind().(type) {
	case *qosproxyv1.Value_Cql:
		return bytes.Equal(kind.Cql, cell)
	case *qosproxyv1.Value_Text:
		return kind.Text == string(cell)
	case *qosproxyv1.Value_Blob:
		return bytes.Equal(kind.Blob, cell)
	case *qosproxyv1.Value_Uuid:
		return bytes.Equal(kind.Uuid, cell)
	case *qosproxyv1.Value_Int:
		return len(cell) == 4 && uint32(kind.Int) == binary.BigEndian.Uint32(cell)
	case *qosproxyv1.Value_Bigint:
		return len(cell) == 8 && uint64(kind.Bigint) == binary.BigEndian.Uint64(cell)
	case *qosproxyv1.Value_Double:
		return len(cell) == 8 && math.Float64bits(kind.Double) == binary.BigEndian.Uint64(cell)
	case *qosproxyv1.Value_Boolean:
		return len(cell) == 1 && kind.Boolean == (cell[0] != 0)
	default:
		return false
	}
}

// appendJSON appends the value of a cell in Cassandra's JSON form.
func (c *Column) appendJSON(to, cell []byte) []byte {
	switch c.Type {
	case "text":
		return append(append(append(to, '"'), cell...), '"')
	case "blob":
		return append(hex.AppendEncode(append(to, '"', '0', 'x'), cell), '"')
	case "int":
		return strconv.AppendInt(to, int64(int32(binary.BigEndian.Uint32(cell))), 10)
	case "bigint":
		return strconv.AppendInt(to, int64(binary.BigEndian.Uint64(cell)), 10)
	case "boolean":
		return strconv.AppendBool(to, cell[0] != 0)
	case "uuid":
		to = append(to, '"')
		for i, part := range [][]byte{cell[:4], cell[4:6], cell[6:8], cell[8:10], cell[10:]} {
			if i > 0 {
				to = append(to, '-')
			}
			to = hex.AppendEncode(to, part)
		}
		return append(to, '"')
	default: // double
		return strconv.AppendFloat(to, math.Float64frombits(binary.BigEndian.Uint64(cell)), 'g', -1, 64)
	}
}

// equalJSON reports whether v, a value of an HTTP answer, equals the cell.
func (c *Column) equalJSON(v, cell []byte) bool {
	if c.Type == "double" {
		f, err := strconv.ParseFloat(string(v), 64)
		return err == nil && math.Float64bits(f) == binary.BigEndian.Uint64(cell)
	}
	var room [128]byte
	return bytes.Equal(v, c.appendJSON(room[:0], cell))
}
