package config

import (
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// entriesOf returns the entries of a mapping. The parser returns a mapping of
// one entry as the bare entry.
func entriesOf(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// scalarOf returns the text of a scalar, and whether it is a string in quotes.
func scalarOf(node ast.Node) (text string, quoted, ok bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		t := n.GetToken().Type
		return n.Value, t == token.SingleQuoteType || t == token.DoubleQuoteType, true
	case *ast.LiteralNode:
		return n.Value.Value, true, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, false, true
	}
	return "", false, false
}

func keyOf(node ast.Node) string {
	if k, ok := node.(*ast.MappingKeyNode); ok && k.Value != nil {
		node = k.Value
	}
	if s, ok := node.(*ast.StringNode); ok {
		return s.Value
	}
	return node.GetToken().Value
}

// kindOf returns the kind of a node in plain words.
func kindOf(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "mapping"
	case *ast.SequenceNode:
		return "list"
	}
	return "single value"
}

// start returns where a node begins. For a block mapping that is its first key;
// the library gives the colon.
func start(node ast.Node) place {
	for {
		entries, ok := entriesOf(node)
		if !ok || len(entries) == 0 || entries[0].Key == nil {
			break
		}
		if m, flow := node.(*ast.MappingNode); flow && m.IsFlowStyle {
			break
		}
		node = entries[0].Key
	}
	if node == nil {
		return place{}
	}
	return placeOf(node.GetToken())
}

func placeOf(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{}
	}
	return place{line: t.Position.Line, column: t.Position.Column}
}
