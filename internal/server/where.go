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

// Both APIs restrict clustering columns: JSON by an object of a value or of operators for each
// column, gRPC by a list.

// errNullValue refuses a null in a condition.
var errNullValue = errors.New("a clustering column is never null; leave the condition out")

// setWhere reads the member where of a body.
func (in *batchGetBody) setWhere(value json.RawMessage) (err error) {
	if string(value) == "null" {
		return nil
	}
	if value[0] != '{' {
		return lookup.Invalid("where", `expected an object by clustering column, such as {"ts": {"gte": "2026-01-01"}}`)
	}
	in.where, err = membersOf(value)
	return inWhere("", err)
}

// inWhere has an error of membersOf name the place within where.
func inWhere(column string, err error) error {
	refused, ok := errors.AsType[*lookup.Error](err)
	if !ok {
		return err
	}
	field := "where"
	for _, name := range []string{column, refused.Field} {
		if name != "" {
			field += "." + name
		}
	}
	return lookup.Invalid(field, "%s", refused.Message)
}

// whereJSON returns the conditions of a JSON request.
func whereJSON(where []member) func(*lookup.Table) ([]lookup.Condition, error) {
	if len(where) == 0 {
		return nil
	}
	return func(t *lookup.Table) ([]lookup.Condition, error) {
		var out []lookup.Condition
		for _, m := range where {
			column, err := t.ClusteringColumn(storedName(t, m.name))
			if err != nil {
				return nil, err
			}
			conditions, err := conditionsJSON(column.Name, column.Type, m.value)
			if err != nil {
				return nil, err
			}
			out = append(out, conditions...)
		}
		return out, nil
	}
}

// storedName returns a name as Cassandra stores it, where a client may write it as SELECT JSON
// does: in double quotes unless it is all lower case.
func storedName(t *lookup.Table, name string) string {
	for _, c := range t.Schema.Clustering {
		if cqltype.ColumnJSONName(c.Name) == name {
			return c.Name
		}
	}
	return name
}

// conditionsJSON returns the conditions on one column. An object has operators: the value of a
// map or a user-defined type, which is an object itself, is that of eq.
func conditionsJSON(column string, typ *cqltype.Type, value json.RawMessage) ([]lookup.Condition, error) {
	if value[0] != '{' {
		return conditionJSON(nil, column, typ, member{partition.Equal.String(), value})
	}
	operators, err := membersOf(value)
	if err != nil {
		return nil, inWhere(clip(column), err)
	}
	if len(operators) == 0 {
		return nil, lookup.Invalid("where."+clip(column), "no operator; there are %s", operatorNames())
	}
	var out []lookup.Condition
	for _, o := range operators {
		if out, err = conditionJSON(out, column, typ, o); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// conditionJSON appends the condition of one operator.
func conditionJSON(out []lookup.Condition, column string, typ *cqltype.Type, o member) ([]lookup.Condition, error) {
	field := "where." + clip(column)
	i := slices.IndexFunc(partition.Operators, func(known partition.Operator) bool { return known.String() == o.name })
	if i < 0 {
		return nil, lookup.Invalid(field+"."+clip(o.name), "no such operator; there are %s", operatorNames())
	}
	condition, values := lookup.Condition{Column: column, Operator: partition.Operators[i]}, []json.RawMessage{o.value}
	if condition.Operator == partition.In {
		if o.value[0] != '[' || len(splitArray(o.value)) == 0 {
			return nil, lookup.Invalid(field+".in", "expected an array of at least one value")
		}
		values = splitArray(o.value)
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

// operatorOf are the operators by their wire number.
var operatorOf = map[qosproxyv1.Operator]partition.Operator{
	qosproxyv1.Operator_OPERATOR_EQUAL:            partition.Equal,
	qosproxyv1.Operator_OPERATOR_IN:               partition.In,
	qosproxyv1.Operator_OPERATOR_GREATER:          partition.Greater,
	qosproxyv1.Operator_OPERATOR_GREATER_OR_EQUAL: partition.GreaterOrEqual,
	qosproxyv1.Operator_OPERATOR_LESS:             partition.Less,
	qosproxyv1.Operator_OPERATOR_LESS_OR_EQUAL:    partition.LessOrEqual,
}

// whereValues returns the conditions of a gRPC request.
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
