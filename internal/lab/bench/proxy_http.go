package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// httpTarget asks a proxy over HTTP/JSON.
type httpTarget struct {
	data   *Dataset
	client *http.Client
	url    string
	token  bearer // empty for none
}

// newHTTP returns a target for the HTTP listener at a base URL, such as http://127.0.0.1:8080.
func (o *Open) newHTTP(base string) *httpTarget {
	return &httpTarget{
		data:   o.Data,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxInFlight, TLSClientConfig: o.TLS}},
		url:    fmt.Sprintf("%s/v1/%s/%s:batchGet", base, o.Data.Profile.Keyspace, o.Data.Profile.Table),
		token:  bearer(o.Token),
	}
}

// Close implements Target.
func (t *httpTarget) Close() { t.client.CloseIdleConnections() }

// body returns the JSON of the request.
func (t *httpTarget) body(l *Lookup) []byte {
	out := make([]byte, 0, 32*len(l.Keys)+128)
	out = append(out, `{"keys":[`...)
	for i, k := range l.Keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, t.data.keys[k].json...)
	}
	out = append(out, `],"columns":[`...)
	for i, name := range l.kind.names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), name...), '"')
	}
	out = strconv.AppendInt(append(out, `],"limit_per_key":`...), int64(l.kind.Limit), 10)
	return append(out, '}')
}

// httpAnswer has the fields of an answer that are used.
type httpAnswer struct {
	Results []struct {
		Status string                       `json:"status"`
		Error  string                       `json:"error"`
		Rows   []map[string]json.RawMessage `json:"rows"`
	} `json:"results"`
	Stats struct {
		SubQueries int `json:"sub_queries"`
		Hedges     int `json:"hedges"`
		Failovers  int `json:"failovers"`
	} `json:"stats"`
}

// Do implements Target.
func (t *httpTarget) Do(ctx context.Context, l *Lookup) Outcome {
	a, err := t.ask(ctx, l)
	if err != nil {
		return Outcome{Failed: len(l.Keys), Err: err}
	}
	o := Outcome{SubQueries: a.Stats.SubQueries, Hedges: a.Stats.Hedges, Failovers: a.Stats.Failovers}
	for i, r := range a.Results {
		switch r.Status {
		case "FOUND", "NOT_FOUND":
			t.data.verify(&o, l, i, len(r.Rows), func(row, c int, cell []byte) bool {
				column := &t.data.columns[l.kind.columns[c]]
				return column.equalJSON(r.Rows[row][column.Name], cell)
			})
		default:
			o.Failed++
			o.Err = fmt.Errorf("%s: %s", r.Status, r.Error)
		}
	}
	return o
}

func (t *httpTarget) ask(ctx context.Context, l *Lookup) (*httpAnswer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(t.body(l)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if t.token != "" {
		req.Header.Set("Authorization", t.token.header())
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	a := &httpAnswer{}
	if err := json.Unmarshal(data, a); err != nil || len(a.Results) != len(l.Keys) {
		return nil, fmt.Errorf("%s: %.200s", resp.Status, data)
	}
	return a, nil
}
