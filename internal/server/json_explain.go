package server

import (
	"encoding/json"

	"github.com/qosproxy/qosproxy/internal/explain"
	"github.com/qosproxy/qosproxy/internal/lookup"
)

// appendExplanation appends the plan and attempts of a traced lookup.
func appendExplanation(dst []byte, resp *lookup.Response) ([]byte, error) {
	e, err := explanationOf(resp)
	if err != nil {
		return dst, err
	}
	body, err := json.Marshal(explain.New(e))
	if err != nil {
		return dst, err
	}
	dst = append(dst, `,"explain":`...)
	return append(dst, body...), nil
}
