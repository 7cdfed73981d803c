package cqltype

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
)

// appendUUID appends 16 bytes in the form 8-4-4-4-12.
func appendUUID(dst, cell []byte) []byte {
	dst = hex.AppendEncode(dst, cell[:4])
	for i := 4; i < 10; i += 2 {
		dst = hex.AppendEncode(append(dst, '-'), cell[i:i+2])
	}
	return hex.AppendEncode(append(dst, '-'), cell[10:])
}

// checkUUID returns an error unless the cell is a UUID, of version 1 for a
// timeuuid.
func (t *Type) checkUUID(cell []byte) error {
	if err := t.size(cell, 16); err != nil {
		return err
	}
	if t.Kind == TimeUUID && cell[6]>>4 != 1 {
		return t.malformed(fmt.Errorf("UUID of version %d instead of 1", cell[6]>>4))
	}
	return nil
}

var ipv4Mapped = []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}

// appendInet appends an address as Java does: IPv6 in eight groups that are
// never compressed, and an IPv4 address mapped to IPv6 as IPv4.
func (t *Type) appendInet(dst, cell []byte) ([]byte, error) {
	if len(cell) == 16 && bytes.HasPrefix(cell, ipv4Mapped) {
		cell = cell[12:]
	}
	switch len(cell) {
	case 4:
		for i, c := range cell {
			if i > 0 {
				dst = append(dst, '.')
			}
			dst = strconv.AppendUint(dst, uint64(c), 10)
		}
	case 16:
		for i := 0; i < 16; i += 2 {
			if i > 0 {
				dst = append(dst, ':')
			}
			dst = strconv.AppendUint(dst, uint64(binary.BigEndian.Uint16(cell[i:])), 16)
		}
	default:
		return dst, t.malformed(errors.New("neither 4 nor 16 bytes"))
	}
	return dst, nil
}

// encodeUUID accepts only the form 8-4-4-4-12.
func (t *Type) encodeUUID(dst, text []byte) ([]byte, error) {
	if len(text) != 36 {
		return dst, errForm
	}
	start := len(dst)
	for i := 0; i < len(text); i += 2 {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if text[i] != '-' {
				return dst, errForm
			}
			i++
		}
		high, low := hexDigit(text[i]), hexDigit(text[i+1])
		if high < 0 || low < 0 {
			return dst, errForm
		}
		dst = append(dst, byte(high<<4|low))
	}
	if version := dst[start+6] >> 4; t.Kind == TimeUUID && version != 1 {
		return dst, fmt.Errorf("a UUID of version %d instead of 1", version)
	}
	return dst, nil
}

// encodeInet accepts only an address, never a name that would have to be
// resolved. An IPv4 address mapped to IPv6 becomes IPv4, as in Java.
func encodeInet(dst []byte, s string) ([]byte, error) {
	addr, err := netip.ParseAddr(s)
	if err != nil || addr.Zone() != "" {
		return dst, errForm
	}
	return append(dst, addr.Unmap().AsSlice()...), nil
}
