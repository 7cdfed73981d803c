package server

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// Both APIs restrict clustering columns. JSON has an object with a value or an object of
// operators for each column, gRPC has a list.

// errNullValue refuses a null in a condition.
var errNullValue = errors.New("a clustering column is never null; leave the condition out")

// setWhere sets the member where of a body.
func (in *batchGetBody) setWhere(value json.RawMessage) error {
	if string(value) == "null" {
		return nil
	}
	if value[0] != '{' {
		return lookup.Invalid("where", `expected an object by clustering column, such as {"ts": {"gte": "2026-01-01"}}`)
	}
	in.where = value
	return nil
}

// whereJSON returns a function that parses the conditions of a JSON request.
func whereJSON(where json.RawMessage) func(*lookup.Table) ([]lookup.Condition, error) {
	if where == nil {
		return nil
	}
	return func(t *lookup.Table) (out []lookup.Condition, err error) {
		err = eachMember("where.", where, func(name string, value json.RawMessage) error {
			column, err := t.ClusteringColumn(storedName(t, name))
			if err == nil {
				out, err = conditionsJSON(out, column.Name, column.Type, value)
			}
			return err
		})
		return out, err
	}
}

// storedName returns a column name as Cassandra stores it. A client may write it as SELECT
// JSON does: in double quotes unless it is all lower case.
func storedName(t *lookup.Table, name string) string {
	for _, c := range t.Schema.Clustering {
		if cqltype.ColumnJSONName(c.Name) == name {
			return c.Name
		}
	}
	return name
}

// conditionsJSON appends the conditions on one column. An object always contains operators: a
// value that is an object itself, of a map or a user-defined type, must be given with eq.
func conditionsJSON(out []lookup.Condition, column string, typ *cqltype.Type, value json.RawMessage) (_ []lookup.Condition, err error) {
	if value[0] != '{' {
		return conditionJSON(out, column, typ, partition.Equal.String(), value)
	}
	field, before := "where."+clip(column), len(out)
	err = eachMember(field+".", value, func(operator string, value json.RawMessage) error {
		out, err = conditionJSON(out, column, typ, operator, value)
		return err
	})
	if err == nil && len(out) == before {
		err = lookup.Invalid(field, "no operator; there are %s", operatorNames())
	}
	return out, err
}

// conditionJSON appends the condition with one operator.
func conditionJSON(out []lookup.Condition, column string, typ *cqltype.Type, operator string, value json.RawMessage) ([]lookup.Condition, error) {
	field := "where." + clip(column)
	i := slices.IndexFunc(partition.Operators, func(known partition.Operator) bool { return known.String() == operator })
	if i < 0 {
		return nil, lookup.Invalid(field+"."+clip(operator), "no such operator; there are %s", operatorNames())
	}
	condition, values := lookup.Condition{Column: column, Operator: partition.Operators[i]}, []json.RawMessage{value}
	if condition.Operator == partition.In {
		if value[0] == '[' {
			values = splitArray(value)
		}
		if value[0] != '[' || len(values) == 0 {
			return nil, lookup.Invalid(field+".in", "expected an array of at least one value")
		}
	}
	for _, v := range values {
		cell, err := typ.EncodeJSON(v)
		if err == nil && cell == nil {
			err = errNullValue
		}
		if err != nil {
			return nil, lookup.Invalid(field, "%s", err)
		}
		condition.Values = append(condition.Values, cell)
	}
	return append(out, condition), nil
}

// operatorNames lists the operators of JSON requests.
func operatorNames() string {
	names := make([]string, len(partition.Operators))
	for i, o := range partition.Operators {
		names[i] = o.String()
	}
	return strings.Join(names, ", ")
}

// operatorOf maps wire numbers to operators.
var operatorOf = map[qosproxyv1.Operator]partition.Operator{
	qosproxyv1.Operator_OPERATOR_EQUAL:            partition.Equal,
	qosproxyv1.Operator_OPERATOR_IN:               partition.In,
	qosproxyv1.Operator_OPERATOR_GREATER:          partition.Greater,
	qosproxyv1.Operator_OPERATOR_GREATER_OR_EQUAL: partition.GreaterOrEqual,
	qosproxyv1.Operator_OPERATOR_LESS:             partition.Less,
	qosproxyv1.Operator_OPERATOR_LESS_OR_EQUAL:    partition.LessOrEqual,
}

// whereValues returns a function that parses the conditions of a gRPC request.
func whereValues(where []*qosproxyv1.Condition) func(*lookup.Table) ([]lookup.Condition, error) {
	if len(where) == 0 {
		return nil
	}
	return func(t *lookup.Table) ([]lookup.Condition, error) {
		out := make([]lookup.Condition, len(where))
		for i, w := range where {
			column, err := t.ClusteringColumn(w.GetColumn())
			if err != nil {
				return nil, err
			}
			field := "where." + clip(column.Name)
			operator, known := operatorOf[w.GetOperator()]
			switch n := len(w.GetValues()); {
			case !known:
				return nil, lookup.Invalid(field, "no such operator")
			case n == 0, n > 1 && operator != partition.In:
				return nil, lookup.Invalid(field, "%d values; %s takes one, and in at least one", n, operator)
			}
			out[i] = lookup.Condition{Column: column.Name, Operator: operator}
			for _, v := range w.GetValues() {
				cell, err := encodeValue(column.Type, v)
				if err == nil && cell == nil {
					err = errNullValue
				}
				if err != nil {
					return nil, lookup.Invalid(field, "%s", err)
				}
				out[i].Values = append(out[i].Values, cell)
			}
		}
		return out, nil
	}
}
