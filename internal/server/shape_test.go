package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// The results of keys that the client had agreed to do without.
var (
	notWaitedFor = partition.Unanswered(reasons.SoftDeadline, fmt.Errorf("%w of 20ms with 1 of 2 keys", lookup.ErrSoftDeadline))
	notRead      = partition.Unanswered(reasons.Optional, lookup.ErrOptionalShed)
)

func TestWhatTheClientAgreedToIsNoLoss(t *testing.T) {
	for name, c := range map[string]struct {
		results []partition.Result
		code    string
		http    int
	}{
		"a key not waited for":                  {[]partition.Result{absent, notWaitedFor}, "PARTIAL_OK", 200},
		"an optional key that was shed":         {[]partition.Result{absent, notRead}, "PARTIAL_OK", 200},
		"both":                                  {[]partition.Result{absent, notRead, notWaitedFor}, "PARTIAL_OK", 200},
		"control: one that is lost besides":     {[]partition.Result{absent, notRead, late}, "PARTIAL", 200},
		"control: shed for another reason":      {[]partition.Result{absent, {Status: partition.Shed}}, "PARTIAL", 200},
		"nothing answered is still no answer":   {[]partition.Result{notRead}, "RESOURCE_EXHAUSTED", 429},
		"everything answered is more than that": {[]partition.Result{absent}, "OK", 200},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}, get: respond(c.results...)}})
			w := do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet", `{"keys":["a"`+strings.Repeat(`,"a"`, len(c.results)-1)+`]}`)
			assert.Equal(t, c.http, w.Code)
			assert.Equal(t, c.code, d.observed.last())
			assert.Equal(t, c.code == "OK", w.Header().Get("Cache-Control") == "")
			for range c.results[1:] {
				assert.Contains(t, w.Body.String(), `"partial":true`)
				assert.NotContains(t, w.Body.String(), `"unprocessed_keys":[]`)
			}

			in := &qosproxyv1.StreamBatchGetRequest{Keyspace: "ks", Table: "products"}
			for range c.results {
				in.Keys = append(in.Keys, key(text("a")))
			}
			stream, err := d.rpc.StreamBatchGet(t.Context(), in)
			require.NoError(t, err)
			for err == nil {
				_, err = stream.Recv()
			}
			assert.Equal(t, c.code, d.observed.last(), "of a stream")
		})
	}
}

// TestBothListenersShapeAnswersAlike sends the same deadlines, valid and invalid ones,
// through both listeners to a service that records what it was asked.
func TestBothListenersShapeAnswersAlike(t *testing.T) {
	type asked struct {
		soft, timeout time.Duration
		least         int
		optional      string
	}
	var got asked
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}, get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
		got = asked{req.SoftDeadline, req.Timeout, req.MinKeys, fmt.Sprint(req.Optional)}
		return oracle(ctx, req)
	}}})
	refused, answered := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "keys")
		in := &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", MinKeys: int32(rapid.IntRange(-1, 6).Draw(t, "min_keys"))}
		body := map[string]any{"min_keys": in.GetMinKeys()}
		var keys, optional []string
		for i := range n {
			in.Keys = append(in.Keys, key(text(strconv.Itoa(i))))
			keys = append(keys, strconv.Itoa(i))
		}
		for i := range n {
			if rapid.Bool().Draw(t, "optional") {
				in.OptionalKeys = append(in.OptionalKeys, int32(i))
				optional = append(optional, strconv.Itoa(i))
			}
		}
		if rapid.IntRange(0, 9).Draw(t, "unknown") == 0 {
			in.OptionalKeys, optional = append(in.OptionalKeys, int32(n)), append(optional, strconv.Itoa(n))
			if len(optional) > n {
				t.Skip("worded as too many by the one listener alone")
			}
		}
		body["keys"], body["optional_keys"] = keys, optional
		for field, to := range map[string]**durationpb.Duration{"soft_deadline": &in.SoftDeadline, "timeout": &in.Timeout} {
			if ms := rapid.IntRange(-1, 50).Draw(t, field); ms != 0 {
				*to = durationpb.New(time.Duration(ms) * time.Millisecond)
				body[field] = fmt.Sprintf("%dms", ms)
			}
		}
		raw, err := json.Marshal(body)
		require.NoError(t, err)
		got = asked{}
		w := do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet", string(raw))
		overHTTP := got
		got = asked{}
		_, err = d.rpc.BatchGet(context.Background(), in)
		require.Equal(t, overHTTP, got, "%s", raw)
		if overHTTP == (asked{}) {
			refused++
			var said struct {
				Error struct{ Code, Field, Message string }
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &said), "%s", w.Body)
			p := rpcProblem(err)
			// Of several mistakes, the listeners may report different ones.
			if said.Error.Field == p.field {
				require.Equal(t, said.Error.Code, p.code)
			}
			require.NotEmpty(t, said.Error.Field)
			require.NotEmpty(t, p.field)
			return
		}
		answered++
	})
	require.NotZero(t, refused)
	if !testing.Short() {
		require.NotZero(t, answered)
	}
}

func TestMarksOfOptionalKeysNameTheirField(t *testing.T) {
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}})
	for body, field := range map[string]string{
		`{"keys":["a"],"optional_keys":["b"]}`:        "optional_keys[0]",
		`{"keys":["a","b"],"optional_keys":["b", 7]}`: "optional_keys[1]",
		`{"keys":["a"],"optional_keys":["a","a"]}`:    "optional_keys",
		`{"keys":["a"],"optional_keys":"a"}`:          "optional_keys",
		`{"keys":["a"],"min_keys":"1"}`:               "min_keys",
		`{"keys":["a"],"soft_deadline":5}`:            "soft_deadline",
		`{"keys":["a"],"soft_deadline":"-5ms"}`:       "soft_deadline",
		`{"keys":["a"],"soft_deadline":"soon"}`:       "soft_deadline",
	} {
		w := do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet", body)
		assert.Equal(t, http.StatusBadRequest, w.Code, body)
		assert.Contains(t, w.Body.String(), `"field":"`+field+`"`, body)
	}
	for _, position := range []int32{-1, 1} {
		_, err := d.rpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products",
			Keys: []*qosproxyv1.Key{key(text("a"))}, OptionalKeys: []int32{position}})
		assert.Equal(t, "optional_keys[0]", rpcProblem(err).field)
	}
}

func TestAKeyIsOptionalWhereverItIsNamed(t *testing.T) {
	var marks []bool
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{table(t, "wide", 2, "a text", "b int")}, get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
		marks = req.Optional
		return oracle(ctx, req)
	}}})
	do(d.http.Handler, http.MethodPost, "/v1/ks/wide:batchGet", `{"keys":[["a",1],["b",2],{"b":1,"a":"a"}],"optional_keys":[{"a":"a","b":1}]}`)
	assert.Equal(t, []bool{true, false, true}, marks)
	do(d.http.Handler, http.MethodPost, "/v1/ks/wide:batchGet", `{"keys":[["a",1]],"optional_keys":null,"min_keys":null,"soft_deadline":null}`)
	assert.Nil(t, marks)
}
