package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/explain"
)

// getResult is an answer, with the keys as they were typed.
type getResult struct {
	keys []string
	resp *qosproxyv1.BatchGetResponse
}

// unanswered counts the keys without an answer.
func (g *getResult) unanswered() int {
	n := 0
	for _, r := range g.resp.GetResults() {
		if !isAnswered(r.GetStatus()) {
			n++
		}
	}
	return n
}

func isAnswered(s qosproxyv1.KeyStatus) bool {
	return s == qosproxyv1.KeyStatus_KEY_STATUS_FOUND || s == qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND
}

// statusName returns a status as the HTTP listener writes it.
func statusName(s qosproxyv1.KeyStatus) string {
	return strings.TrimPrefix(s.String(), "KEY_STATUS_")
}

// reasonWord returns a reason as the HTTP listener writes it; empty for none.
func reasonWord(r qosproxyv1.Reason) string {
	if r == qosproxyv1.Reason_REASON_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(r.String(), "REASON_"))
}

// why returns reason and error of a key that was not answered; empty for other keys.
func why(r *qosproxyv1.KeyResult) string {
	word, text := reasonWord(r.GetReason()), r.GetError()
	if word == "" || text == "" {
		return word + text
	}
	return word + ": " + text
}

// next returns the keys that have a next page, and the lookup of these pages.
func (g *getResult) next(req *qosproxyv1.BatchGetRequest) (keys []string, next *qosproxyv1.BatchGetRequest) {
	next = proto.CloneOf(req)
	next.Keys, next.PageTokens = nil, nil
	for i, r := range g.resp.GetResults() {
		if token := r.GetNextPageToken(); token != "" {
			keys = append(keys, g.keys[i])
			next.Keys, next.PageTokens = append(next.GetKeys(), req.GetKeys()[i]), append(next.GetPageTokens(), token)
		}
	}
	next.MinKeys = min(req.GetMinKeys(), int32(len(keys)))
	return keys, next
}

// getPrinter prints the answer to a lookup, or its pages one after another.
type getPrinter struct {
	cmd *cobra.Command
	// json selects JSON documents instead of a table; pages is set if the lookup is made in
	// pages.
	json, pages bool
	// printed and rows count the pages and rows printed so far.
	printed, rows int32
}

// page prints an answer.
func (p *getPrinter) page(g *getResult) error {
	p.printed++
	for _, r := range g.resp.GetResults() {
		p.rows += int32(len(r.GetRows()))
	}
	if p.json {
		return g.printJSON(p.cmd)
	}
	if err := g.printTable(p.cmd, p.printed == 1); err != nil {
		return err
	}
	if !p.pages {
		g.printStats(p.cmd.OutOrStdout())
	}
	return g.printExplanation(p.cmd)
}

// end prints the summary after the last page.
func (p *getPrinter) end() error {
	if p.pages && !p.json {
		fmt.Fprintf(p.cmd.OutOrStdout(), "\n%s in %s\n", plural(p.rows, "row", "rows"), plural(p.printed, "page", "pages"))
	}
	return nil
}

// printTable prints a line for each row and for each key without rows, below a header if
// header is set.
func (g *getResult) printTable(cmd *cobra.Command, header bool) error {
	types, names, err := wireTypes(g.resp.GetColumns())
	if err != nil {
		return err
	}
	w := newTable(cmd.OutOrStdout())
	if header {
		fmt.Fprintln(w, strings.Join(append([]string{"KEY", "STATUS"}, names...), "\t"))
	}
	for i, r := range g.resp.GetResults() {
		if len(r.GetRows()) == 0 {
			fmt.Fprintf(w, "%s\t%s\t%s\n", g.keys[i], statusName(r.GetStatus()), why(r))
		}
		for _, row := range r.GetRows() {
			line := []string{g.keys[i], statusName(r.GetStatus())}
			for c, v := range row.GetValues() {
				text, err := types[c].AppendText(nil, cell(v))
				if err != nil {
					return fmt.Errorf("column %s: %w", names[c], err)
				}
				line = append(line, string(text))
			}
			fmt.Fprintln(w, strings.Join(line, "\t"))
		}
	}
	return w.Flush()
}

// printStats prints the statistics of the lookup.
func (g *getResult) printStats(out io.Writer) {
	s := g.resp.GetStats()
	fmt.Fprintf(out, "\n%s in %s, %s (%s, %s), %.1f ms\n", plural(s.GetKeys(), "key", "keys"), plural(s.GetGroups(), "group", "groups"),
		plural(s.GetSubQueries(), "sub-query", "sub-queries"), plural(s.GetHedges(), "hedge", "hedges"),
		plural(s.GetFailovers(), "fail-over", "fail-overs"), s.GetElapsed().AsDuration().Seconds()*1000)
}

// plural returns a count with its noun, in the singular or plural.
func plural(n int32, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// printJSON prints the answer in the form of the HTTP listener.
func (g *getResult) printJSON(cmd *cobra.Command) error {
	types, names, err := wireTypes(g.resp.GetColumns())
	if err != nil {
		return err
	}
	type result struct {
		Key    string            `json:"key"`
		Status string            `json:"status"`
		Reason string            `json:"reason,omitempty"`
		Rows   []json.RawMessage `json:"rows,omitempty"`
		Error  string            `json:"error,omitempty"`
		Next   string            `json:"next_page_token,omitempty"`
	}
	out := struct {
		Results     []result             `json:"results"`
		Partial     bool                 `json:"partial"`
		Unprocessed []string             `json:"unprocessed_keys"`
		Stats       json.RawMessage      `json:"stats"`
		Explain     *explain.Explanation `json:"explain,omitempty"`
	}{Partial: g.resp.GetPartial(), Unprocessed: []string{}, Explain: explain.New(g.resp.GetExplanation())}
	for _, i := range g.resp.GetUnprocessedKeys() {
		out.Unprocessed = append(out.Unprocessed, g.keys[i])
	}
	for i, r := range g.resp.GetResults() {
		res := result{Key: g.keys[i], Status: statusName(r.GetStatus()), Reason: reasonWord(r.GetReason()), Error: r.GetError(), Next: r.GetNextPageToken()}
		for _, row := range r.GetRows() {
			object, err := rowJSON(types, names, row)
			if err != nil {
				return err
			}
			res.Rows = append(res.Rows, object)
		}
		out.Results = append(out.Results, res)
	}
	s := g.resp.GetStats()
	out.Stats = json.RawMessage(fmt.Sprintf(`{"keys":%d,"groups":%d,"sub_queries":%d,"hedges":%d,"failovers":%d,"coalesced":%d,"elapsed_ms":%.3f}`,
		s.GetKeys(), s.GetGroups(), s.GetSubQueries(), s.GetHedges(), s.GetFailovers(), s.GetCoalesced(), s.GetElapsed().AsDuration().Seconds()*1000))
	return printJSON(cmd, out)
}

// rowJSON writes a row as SELECT JSON does.
func rowJSON(types []*cqltype.Type, names []string, row *qosproxyv1.Row) (json.RawMessage, error) {
	object := []byte{'{'}
	for c, v := range row.GetValues() {
		if c > 0 {
			object = append(object, ',')
		}
		name, err := json.Marshal(cqltype.ColumnJSONName(names[c]))
		if err != nil {
			return nil, err
		}
		object = append(append(object, name...), ':')
		if object, err = types[c].AppendJSON(object, cell(v)); err != nil {
			return nil, fmt.Errorf("column %s: %w", names[c], err)
		}
	}
	return append(object, '}'), nil
}

// cell returns the bytes of a cell, nil for null.
func cell(v *qosproxyv1.Value) []byte {
	if c, ok := v.GetKind().(*qosproxyv1.Value_Cql); ok {
		if c.Cql == nil {
			return []byte{}
		}
		return c.Cql
	}
	return nil
}

// wireTypes returns types and names of the columns that the proxy describes.
func wireTypes(columns []*qosproxyv1.Column) ([]*cqltype.Type, []string, error) {
	types, names := make([]*cqltype.Type, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		t, err := wireType(c.GetType())
		if err != nil {
			return nil, nil, fmt.Errorf("column %s: %w", c.GetName(), err)
		}
		types[i], names[i] = t, c.GetName()
	}
	return types, names, nil
}

// wireType returns the type that the proxy describes. The name of a type says everything
// except the fields of a UDT.
func wireType(t *qosproxyv1.Type) (*cqltype.Type, error) {
	fields := make(map[string]*qosproxyv1.Type)
	collectUDTs(t, fields)
	var resolve func(keyspace, name string) (*cqltype.Type, error)
	resolve = func(keyspace, name string) (*cqltype.Type, error) {
		w, ok := fields[name]
		if !ok {
			return nil, fmt.Errorf("the proxy did not describe type %s", name)
		}
		udt := &cqltype.Type{Kind: cqltype.UDT, Keyspace: keyspace, Name: name, Fields: w.GetFieldNames()}
		for _, e := range w.GetElements() {
			field, err := cqltype.Parse(e.GetName(), resolve, keyspace)
			if err != nil {
				return nil, err
			}
			udt.Elems = append(udt.Elems, field)
		}
		return udt, nil
	}
	return cqltype.Parse(t.GetName(), resolve, "")
}

// collectUDTs adds the UDTs within a type to into, by name.
func collectUDTs(t *qosproxyv1.Type, into map[string]*qosproxyv1.Type) {
	if t.GetKind() == qosproxyv1.TypeKind_TYPE_KIND_UDT {
		name := strings.TrimSuffix(strings.TrimPrefix(t.GetName(), "frozen<"), ">")
		into[strings.Trim(name, `"`)] = t
	}
	for _, e := range t.GetElements() {
		collectUDTs(e, into)
	}
}
