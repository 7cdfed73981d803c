package report

import (
	"encoding/json"
	"fmt"
	"io"
)

// Read reads a report that WriteJSON wrote, and validates it.
func Read(in io.Reader) (*Report, error) {
	var r Report
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	return &r, nil
}

// WriteJSON writes the whole report as indented JSON, for Read and other programs.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
