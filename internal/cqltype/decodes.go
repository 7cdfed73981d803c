package cqltype

import "strings"

// Decodes reports whether a cell of type server may be decoded as t: whether both types
// give its bytes the same meaning, down to the innermost element.
//
// frozen<…> does not change bytes and is ignored. A UDT may have fewer or more fields at
// its end, since ALTER TYPE only appends: only the common fields must agree, and Walk
// refuses a cell with more fields than t has. Custom types are compared by class. One
// whose Name is no class with a package, such as that of a type that could not be parsed,
// decodes anything, because its cells are passed on as bytes.
func (t *Type) Decodes(server *Type) bool {
	if t.Kind == Custom {
		class, err := ParseClass(t.Name)
		if err != nil || !strings.Contains(t.Name, ".") {
			return true
		}
		if class.Kind != Custom {
			return class.Decodes(server)
		}
		return server.Kind == Custom && server.Name == class.Name
	}
	if t.Kind != server.Kind || t.Keyspace != server.Keyspace || t.Name != server.Name || t.Dimension != server.Dimension {
		return false
	}
	common := len(t.Elems)
	if t.Kind == UDT {
		common = min(common, len(server.Elems))
	} else if common != len(server.Elems) {
		return false
	}
	for i := range common {
		if t.Kind == UDT && t.Fields[i] != server.Fields[i] || !t.Elems[i].Decodes(server.Elems[i]) {
			return false
		}
	}
	return true
}
