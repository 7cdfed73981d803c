package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/explain"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/memory"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// The custom methods, at the end of the path of a table.
const (
	batchGetVerb = ":batchGet"
	explainVerb  = ":explain"
)

func (s *Server) newHTTP(handler http.Handler) *http.Server {
	h := &http.Server{
		Handler:  s.guardHTTP(handler),
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.limitHTTP(h)
	return h
}

// httpHandler routes the HTTP/JSON API. It does not use a ServeMux, which has no
// pattern for {table}:batchGet, redirects keys that look like a path, and answers in
// plain text.
func (s *Server) httpHandler() http.Handler {
	return s.identified(s.withinMemory(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := s.deps.HTTPContext; f != nil {
			r = r.WithContext(f(r.Context(), r))
		}
		segments, err := pathSegments(r.URL)
		if err != nil {
			writeError(w, badRequest("path", "the path is not valid percent-encoding"))
			return
		}
		switch {
		case len(segments) == 1 && segments[0] == "openapi.json":
			s.onlyGet(w, r, s.serveOpenAPI)
		case len(segments) == 2 && segments[0] == "v1" && segments[1] == "tables":
			s.onlyGet(w, r, s.serveTables)
		case len(segments) == 3 && segments[0] == "v1" && strings.HasSuffix(segments[2], batchGetVerb):
			if r.Method != http.MethodPost {
				methodNotAllowed(w, http.MethodPost)
				return
			}
			s.serveBatchGet(w, r, segments[1], strings.TrimSuffix(segments[2], batchGetVerb))
		case len(segments) == 3 && segments[0] == "v1" && strings.HasSuffix(segments[2], explainVerb):
			if r.Method != http.MethodPost {
				methodNotAllowed(w, http.MethodPost)
				return
			}
			s.serveExplain(w, r, segments[1], strings.TrimSuffix(segments[2], explainVerb))
		case len(segments) == 4 && segments[0] == "v1":
			s.onlyGet(w, r, func(w http.ResponseWriter, r *http.Request) {
				s.serveKey(w, r, segments[1], segments[2], segments[3])
			})
		default:
			writeError(w, httpError{status: http.StatusNotFound, code: lookup.CodeNotFound, why: reasons.UnknownMethod, message: "no such path; GET /openapi.json describes those there are"})
		}
	})))
}

// pathSegments splits a path at its slashes, except at percent-encoded ones, so that a
// key may contain any character.
func pathSegments(u *url.URL) ([]string, error) {
	segments := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	for i, s := range segments {
		var err error
		if segments[i], err = url.PathUnescape(s); err != nil {
			return nil, err
		}
	}
	return segments, nil
}

func (s *Server) onlyGet(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		methodNotAllowed(w, http.MethodGet)
		return
	}
	next(w, r)
}

// serveBatchGet answers POST /v1/{keyspace}/{table}:batchGet.
func (s *Server) serveBatchGet(w http.ResponseWriter, r *http.Request, keyspace, table string) {
	c := s.begin()
	defer c.end(r.Context())
	c.traceHTTP(w, r, endpointHTTPBatchGet)
	if refused := s.atHeaders(r.Context()); refused != nil {
		c.failHTTP(w, r, refused)
		return
	}
	in, err := s.readBatchGet(w, r)
	if err != nil {
		c.failHTTP(w, r, err)
		return
	}
	c.start = time.Now() // as over gRPC, where a handler is called once the request has arrived
	s.answer(w, r, c, in.request(keyspace, table), func(dst []byte, _ *lookup.Request, i int) ([]byte, error) {
		return appendCompact(dst, in.keys[i]), nil
	}, answerBatch)
}

// request returns the lookup that a body asks for.
func (in *batchGetBody) request(keyspace, table string) *parsedRequest {
	return &parsedRequest{
		keyspace: keyspace, table: table,
		columns: in.columns, limit: in.limit, timeout: in.timeout, trace: in.explain,
		soft: in.soft, minKeys: in.minKeys,
		reverse: in.reverse, consistency: in.consistency, paging: in.paging, pageTokens: in.pageTokens, where: whereJSON(in.where),
		keys: countArray(in.array),
		encoder: func(t *schema.Table) keyEncoder {
			in.keys = splitArray(in.array)
			return jsonKeys(t, in.keys)
		},
		optional: optionalJSON(in.optional),
	}
}

// serveExplain answers POST /v1/{keyspace}/{table}:explain, whose body is that of a
// lookup. The observer does not see it: it reads nothing.
func (s *Server) serveExplain(w http.ResponseWriter, r *http.Request, keyspace, table string) {
	plan, err := s.planOfBody(w, r, keyspace, table)
	if err != nil {
		writeError(w, errorOf(r, err))
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	writeValue(w, r, explain.NewPlan(plan))
}

// planOfBody returns the plan of the lookup in the body of a request.
func (s *Server) planOfBody(w http.ResponseWriter, r *http.Request, keyspace, table string) (*qosproxyv1.Plan, error) {
	in, err := s.readBatchGet(w, r)
	if err != nil {
		return nil, err
	}
	req, err := s.begin().resolve(r.Context(), in.request(keyspace, table))
	if err != nil {
		return nil, err
	}
	return s.explain(r.Context(), req)
}

// readBatchGet reads and decodes the body of a request.
func (s *Server) readBatchGet(w http.ResponseWriter, r *http.Request) (*batchGetBody, error) {
	body, err := s.readBody(w, r)
	if err != nil {
		return nil, err
	}
	return decodeBatchGet(body)
}

// readBody reads the body of a request within its limits.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if kind := r.Header.Get("Content-Type"); kind != "" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || !isJSONMedia(media) {
			return nil, httpError{status: http.StatusUnsupportedMediaType, code: lookup.CodeInvalidArgument, why: reasons.UnsupportedMedia, field: "Content-Type",
				message: "the body must be application/json"}
		}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		w.Header().Set("Accept-Encoding", "identity")
		return nil, httpError{status: http.StatusUnsupportedMediaType, code: lookup.CodeInvalidArgument, why: reasons.UnsupportedMedia, field: "Content-Encoding",
			message: "the body must not be compressed"}
	}
	// The announced length is not sent yet, so it is no reason to allocate that much
	// memory.
	announced := min(max(r.ContentLength, 0), int64(s.cfg.MaxRequestBytes), firstBodyBytes)
	buf := bytes.NewBuffer(make([]byte, 0, announced+bytes.MinRead))
	call := callOf(r.Context())
	_, err := buf.ReadFrom(http.MaxBytesReader(w, countedBody{r.Body, call}, int64(s.cfg.MaxRequestBytes)))
	body := buf.Bytes()
	if gone := call.Err(); gone != nil {
		w.Header().Set("Connection", "close") // the rest of the body is not read
		return nil, gone
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, httpError{status: http.StatusRequestEntityTooLarge, code: lookup.CodeInvalidArgument, why: reasons.RequestTooLarge, field: "body",
			message: "the body exceeds " + strconv.Itoa(s.cfg.MaxRequestBytes) + " bytes; send fewer keys"}
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, &memory.Error{Reason: memory.Slow}
	case err != nil:
		return nil, badRequest("body", "the body ended early")
	}
	return body, call.Complete(len(body), len(body)+elementBytes*min(bytes.Count(body, comma), maxElements))
}

// firstBodyBytes is the maximum memory for a body before anything of it has arrived.
const firstBodyBytes = 64 << 10

// isJSONMedia also accepts what curl sends by default: nobody posts a form here.
func isJSONMedia(media string) bool {
	return media == "application/json" || media == "application/x-www-form-urlencoded" ||
		strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}

// serveKey answers GET and HEAD of /v1/{keyspace}/{table}/{key}.
func (s *Server) serveKey(w http.ResponseWriter, r *http.Request, keyspace, table, key string) {
	c := s.begin()
	defer c.end(r.Context())
	endpoint := endpointHTTPKey
	if r.Method == http.MethodHead {
		endpoint = endpointHTTPKeyHead
	}
	c.traceHTTP(w, r, endpoint)
	p, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		c.failHTTP(w, r, err)
		return
	}
	p.keyspace, p.table, p.keys = keyspace, table, 1
	p.encoder = func(t *schema.Table) keyEncoder { return pathKey(t, key) }
	s.answer(w, r, c, p, func(dst []byte, req *lookup.Request, _ int) ([]byte, error) {
		return req.Table.Schema.PartitionKey[0].Type.AppendJSON(dst, req.Keys[0].Components()[0])
	}, answerOne)
}

// parseQuery reads the parameters of a GET. An unknown parameter is an error: a
// misspelt limit must not read everything.
func parseQuery(raw string) (*parsedRequest, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, lookup.Invalid("query", "the query is not valid percent-encoding")
	}
	p := &parsedRequest{}
	for name, v := range values {
		if len(v) > 1 && name != "columns" {
			return nil, lookup.Invalid(clip(name), "given twice")
		}
		switch name {
		case "columns":
			for _, list := range v {
				p.columns = append(p.columns, strings.Split(list, ",")...)
			}
		case "limit_per_key":
			if p.limit, err = strconv.Atoi(v[0]); err != nil {
				return nil, lookup.Invalid(name, "expected an integer")
			}
		case "timeout":
			if p.timeout, err = parseDuration(name, v[0]); err != nil {
				return nil, err
			}
		case "explain":
			if p.trace, err = strconv.ParseBool(v[0]); err != nil {
				return nil, lookup.Invalid(name, "expected true or false")
			}
		default:
			return nil, lookup.Invalid(clip(name), "no such parameter; there are columns, limit_per_key, timeout and explain")
		}
	}
	return p, nil
}

// answerBatch and answerOne choose the HTTP status of a lookup.
func answerBatch(o outcome, _ *lookup.Response) int { return o.http }

// answerOne returns 404 for a single key that does not exist: it is the resource that
// the path names.
func answerOne(o outcome, resp *lookup.Response) int {
	if len(resp.Results) == 1 && resp.Results[0].Status == partition.NotFound {
		return http.StatusNotFound
	}
	return o.http
}

// answer runs a lookup and writes the response. echo appends the key at i as JSON, and
// statusOf chooses the HTTP status.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, c *call, p *parsedRequest, echo echo, statusOf func(outcome, *lookup.Response) int) {
	ctx := r.Context()
	req, resp, err := c.lookUp(ctx, p, c.get)
	if err != nil {
		c.failHTTP(w, r, err)
		return
	}
	buf := takeBuffer()
	defer giveBuffer(buf)
	*buf, err = appendResponse((*buf)[:0], req, resp, echo)
	if err != nil {
		c.failHTTP(w, r, err)
		return
	}
	sending, err := callOf(ctx).Answer(len(*buf), abortOf(ctx))
	if err != nil {
		c.failHTTP(w, r, err)
		return
	}
	defer sending.Sent()
	c.judge(ctx, resp)
	c.status = statusOf(c.outcome, resp)
	h := w.Header()
	if c.status != http.StatusOK || c.outcome.code != answered.code {
		h.Set("Cache-Control", "no-store")
	}
	setRetryAfter(h, c.outcome.retry)
	c.done = time.Now() // how fast the client reads is not the lookup's time
	writeJSON(w, c.status, *buf)
}

// serveTables answers GET /v1/tables.
func (s *Server) serveTables(w http.ResponseWriter, r *http.Request) {
	type column struct {
		Name string `json:"name"`
		Type string `json:"type"`
	}
	type table struct {
		Keyspace         string   `json:"keyspace"`
		Name             string   `json:"name"`
		PartitionKey     []column `json:"partition_key"`
		Clustering       []column `json:"clustering"`
		Columns          []column `json:"columns"`
		MaxKeys          int      `json:"max_keys"`
		MaxRowsPerKey    int      `json:"max_rows_per_key"`
		MaxResponseBytes int      `json:"max_response_bytes"`
		Timeout          string   `json:"timeout"`
		Consistency      string   `json:"consistency"`
		Consistencies    []string `json:"consistencies"`
	}
	tables, err := s.list(r.Context())
	if err != nil {
		writeError(w, errorOf(r, err))
		return
	}
	out := struct {
		Tables []table `json:"tables"`
	}{Tables: []table{}}
	for _, t := range tables {
		listed := table{
			Keyspace: t.Schema.Keyspace, Name: t.Schema.Name,
			MaxKeys: t.Settings.MaxKeys, MaxRowsPerKey: t.Settings.MaxRowsPerKey, MaxResponseBytes: t.Settings.MaxResponseBytes,
			Timeout: t.Settings.Timeout.String(), Consistency: string(t.Settings.Consistency), Consistencies: t.Levels(), Clustering: []column{},
		}
		for _, c := range t.Schema.PartitionKey {
			listed.PartitionKey = append(listed.PartitionKey, column{c.Name, c.Type.String()})
		}
		for _, c := range t.Schema.Clustering {
			listed.Clustering = append(listed.Clustering, column{c.Name, c.Type.String()})
		}
		for _, c := range t.Columns {
			listed.Columns = append(listed.Columns, column{c.Name, c.Type.String()})
		}
		out.Tables = append(out.Tables, listed)
	}
	writeValue(w, r, out)
}

// writeValue answers a request with a value of ours as JSON.
func writeValue(w http.ResponseWriter, r *http.Request, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		writeError(w, httpError{status: internal.http, code: internal.code, why: internal.why, message: "the answer could not be written as JSON"})
		return
	}
	body = append(body, '\n')
	sending, err := callOf(r.Context()).Answer(len(body), abortOf(r.Context()))
	if err != nil {
		writeError(w, errorOf(r, err))
		return
	}
	defer sending.Sent()
	writeJSON(w, http.StatusOK, body)
}

// writeJSON writes a body, and gives up on a client that does not receive it.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	// Neither error can be reported: only the writer of a test has no deadlines, and a
	// client that is gone receives no error.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout(w)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
