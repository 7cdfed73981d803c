package fake_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/fake"
	"github.com/qosproxy/qosproxy/internal/server"
)

// example is the data file of the guide.
const example = "../../api/fake.yaml"

// running is a fake with its listeners.
type running struct {
	*fake.Fake
	grpc qosproxyv1.QosProxyClient
	http string
}

// serve runs a fake with a file's text.
func serve(t *testing.T, text string) *running {
	t.Helper()
	data, err := fake.Parse([]byte(text), "data.yaml")
	require.NoError(t, err)
	f := fake.New(data)
	t.Cleanup(f.Close)
	on := server.Listener{Address: "127.0.0.1:0"}
	s := server.New(server.Config{GRPC: on, HTTP: on}, server.Deps{Lookup: f, HTTPContext: fake.HTTPContext})
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() { _ = s.Shutdown(t.Context()) })
	conn, err := grpc.NewClient(s.Addr("grpc").String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &running{f, qosproxyv1.NewQosProxyClient(conn), "http://" + s.Addr("http").String()}
}

// serveExample runs a fake with the example of the guide.
func serveExample(t *testing.T) *running {
	t.Helper()
	text, err := os.ReadFile(example)
	require.NoError(t, err)
	return serve(t, string(text))
}

// answer is a response of the HTTP listener.
type answer struct {
	status     int
	retryAfter string
	Results    []struct {
		Key           json.RawMessage   `json:"key"`
		Status        string            `json:"status"`
		Rows          []json.RawMessage `json:"rows"`
		Error         string            `json:"error"`
		NextPageToken string            `json:"next_page_token"`
	} `json:"results"`
	Partial     bool     `json:"partial"`
	Unprocessed []string `json:"unprocessed_keys"`
	Error       struct{ Code, Message, Field string }
}

// statuses returns the statuses of the keys, separated by spaces.
func (a answer) statuses() string {
	words := make([]string, len(a.Results))
	for i, r := range a.Results {
		words[i] = r.Status
	}
	return strings.Join(words, " ")
}

// rows returns the rows of the first key, as JSON texts.
func (a answer) rows() []string {
	if len(a.Results) == 0 {
		return nil
	}
	out := []string{}
	for _, r := range a.Results[0].Rows {
		out = append(out, string(r))
	}
	return out
}

// ask sends a lookup to a table; faults are the values of the header.
func (r *running) ask(t *testing.T, table, body string, faults ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.http+"/v1/"+table+":batchGet", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for _, f := range faults {
		req.Header.Add(fake.Header, f)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	a := answer{status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After")}
	require.NoError(t, json.Unmarshal(data, &a), "%s", data)
	return a
}
