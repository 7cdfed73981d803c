package clienttest

import (
	"bytes"
	"fmt"
	"strings"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// Differences compares what a program reports about a lookup with the answer of a proxy, cell by
// cell, and returns a sentence for each difference.
func Differences(got Outcome, want *qosproxyv1.BatchGetResponse) []string {
	if len(got.Results) != len(want.GetResults()) {
		return []string{fmt.Sprintf("%d results, not %d: %+v", len(got.Results), len(want.GetResults()), got)}
	}
	var found []string
	for i, result := range want.GetResults() {
		if s := strings.TrimPrefix(result.GetStatus().String(), "KEY_STATUS_"); got.Results[i].Status != s {
			found = append(found, fmt.Sprintf("key %d is %s, not %s", i, got.Results[i].Status, s))
		}
		if len(got.Results[i].Rows) != len(result.GetRows()) {
			found = append(found, fmt.Sprintf("key %d has %d rows, not %d", i, len(got.Results[i].Rows), len(result.GetRows())))
			continue
		}
		for r, row := range result.GetRows() {
			for _, d := range rowDifferences(got.Results[i].Rows[r], want.GetColumns(), row) {
				found = append(found, fmt.Sprintf("key %d, %s", i, d))
			}
		}
	}
	return found
}

func rowDifferences(got map[string]any, columns []*qosproxyv1.Column, row *qosproxyv1.Row) []string {
	var found []string
	if len(got) != len(columns) {
		found = append(found, fmt.Sprintf("a row has %d cells, not %d", len(got), len(columns)))
	}
	for c, column := range columns {
		want := encoded(Value(column.GetType(), row.GetValues()[c]))
		told, ok := got[column.GetName()]
		if !ok || !bytes.Equal(want, encoded(told)) {
			found = append(found, fmt.Sprintf("column %s %s is %s, not %s", column.GetName(), column.GetType().GetName(), encoded(told), want))
		}
	}
	return found
}
