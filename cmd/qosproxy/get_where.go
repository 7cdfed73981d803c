package main

import (
	"encoding/json"
	"slices"
	"strings"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/cqltype"
)

// typedOperators are the operators as the user types them. Of two with a common prefix the
// longer comes first.
var typedOperators = []struct {
	typed    string
	operator qosproxyv1.Operator
}{
	{">=", qosproxyv1.Operator_OPERATOR_GREATER_OR_EQUAL},
	{"<=", qosproxyv1.Operator_OPERATOR_LESS_OR_EQUAL},
	{">", qosproxyv1.Operator_OPERATOR_GREATER},
	{"<", qosproxyv1.Operator_OPERATOR_LESS},
	{"=", qosproxyv1.Operator_OPERATOR_EQUAL},
	{" in ", qosproxyv1.Operator_OPERATOR_IN},
}

// wireConditions converts conditions as the user typed them to conditions on clustering
// columns.
func wireConditions(table *qosproxyv1.Table, typed []string) ([]*qosproxyv1.Condition, error) {
	var out []*qosproxyv1.Condition
	for _, text := range typed {
		c, values, err := splitCondition(text)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(table.GetClustering(), func(k *qosproxyv1.Column) bool { return k.GetName() == c.GetColumn() })
		if at < 0 {
			return nil, command.Usagef("--where %q: %q is no clustering column of %s.%s", text, c.GetColumn(), table.GetKeyspace(), table.GetName())
		}
		typ, err := wireType(table.GetClustering()[at].GetType())
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			cell, err := encodeTyped(typ, v, c.GetOperator())
			if err != nil {
				return nil, command.Usagef("--where %q: %w", text, err)
			}
			c.Values = append(c.Values, &qosproxyv1.Value{Kind: &qosproxyv1.Value_Cql{Cql: cell}})
		}
		out = append(out, c)
	}
	return out, nil
}

// encodeTyped encodes a value. The values of a list are JSON.
func encodeTyped(typ *cqltype.Type, text string, operator qosproxyv1.Operator) ([]byte, error) {
	if operator == qosproxyv1.Operator_OPERATOR_IN {
		return typ.EncodeJSON([]byte(text))
	}
	return typ.EncodeText(text)
}

// splitCondition splits a condition at its first operator, and a list into its values.
func splitCondition(text string) (*qosproxyv1.Condition, []string, error) {
	at, found := len(text), -1
	for i, o := range typedOperators {
		if n := strings.Index(text, o.typed); n >= 0 && n < at {
			at, found = n, i
		}
	}
	if found < 0 {
		return nil, nil, command.Usagef("--where %q: no operator; write COLUMN=VALUE, or > >= < <= or in for =", text)
	}
	o := typedOperators[found]
	c := &qosproxyv1.Condition{Column: strings.TrimSpace(text[:at]), Operator: o.operator}
	value := strings.TrimSpace(text[at+len(o.typed):])
	if o.operator != qosproxyv1.Operator_OPERATOR_IN {
		return c, []string{value}, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(value), &list); err != nil {
		return nil, nil, command.Usagef(`--where %q: expected a JSON array behind in, such as ["a","b"]`, text)
	}
	values := make([]string, len(list))
	for i, v := range list {
		values[i] = string(v)
	}
	return c, values, nil
}
