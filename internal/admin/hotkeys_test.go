package admin

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/hotkeys"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// hotPages report one hot key of each of two tables; one has a composite key.
func hotPages(t *testing.T, clear bool) http.Handler {
	t.Helper()
	wide := table(t, "wide", 2, "a text", "b int", "v text")
	composite, err := partition.NewKey([]byte("x"), []byte{0, 0, 0, 7})
	require.NoError(t, err)
	report := func(name string, routing []byte) lookup.HotKeys {
		return lookup.HotKeys{Table: &lookup.Settings{Keyspace: "ks", Table: name}, Window: 42 * time.Second, Keys: 200, OneIn: 4, Top: []lookup.HotKey{
			{Key: hotkeys.Key{Routing: routing, Count: 50, Error: 2}, Share: 0.25, Replicas: []ring.Host{{Addr: "10.0.0.1:9042"}}}}}
	}
	return New(Config{ClearHotKeys: clear}, Deps{
		Lookup: &fake{tables: []*lookup.Table{products(t), wide}}, NotReady: ready,
		HotKeys: func(int) []lookup.HotKeys {
			return []lookup.HotKeys{report("products", []byte("sku-1")), report("wide", composite.Routing())}
		},
	})
}

// hotNames returns the keys that a page names.
func hotNames(t *testing.T, h http.Handler, target string) []string {
	t.Helper()
	w := do(h, "GET", target)
	require.Equal(t, 200, w.Code, w.Body)
	var page hotPage
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
	var names []string
	for _, table := range page.Tables {
		for _, k := range table.Top {
			var compact strings.Builder
			compact.Write(k.Key)
			names = append(names, strings.Join(strings.Fields(compact.String()), ""))
		}
	}
	return names
}

func TestHotKeysAreHashedUnlessAskedOtherwise(t *testing.T) {
	hashed := hotPages(t, false)
	names := hotNames(t, hashed, "/hotkeys")
	require.Len(t, names, 2)
	assert.Regexp(t, `^"#[0-9a-f]{16}"$`, names[0])
	assert.NotEqual(t, names[0], names[1])
	assert.Equal(t, names, hotNames(t, hashed, "/hotkeys"), "two reports agree")
	assert.NotEqual(t, names, hotNames(t, hotPages(t, false), "/hotkeys"), "two processes do not")
	assert.NotContains(t, do(hashed, "GET", "/hotkeys?format=text").Body.String(), "sku")

	assert.Equal(t, []string{`"sku-1"`, `["x",7]`}, hotNames(t, hotPages(t, true), "/hotkeys"), "as in a request")
}

func TestHotKeysPage(t *testing.T) {
	s := hotPages(t, true)
	assert.Equal(t, []string{`"sku-1"`}, hotNames(t, s, "/hotkeys?table=ks.products&k=5"))
	text := do(s, "GET", "/hotkeys?table=ks.products", "Accept", "text/plain").Body.String()
	assert.Contains(t, text, "ks.products: about 200 keys in 42 s, one in 4 looked at\n")
	assert.Contains(t, text, `"sku-1"  50     2      25.0%  10.0.0.1:9042`)
	for target, field := range map[string]string{"k=0": "k", "k=101": "k", "k=x": "k", "table=ks.nope": "table"} {
		w := do(s, "GET", "/hotkeys?"+target)
		assert.Equal(t, 400, w.Code)
		assert.Contains(t, w.Body.String(), `"field":"`+field+`"`)
	}
	assert.Equal(t, 404, do(New(Config{}, Deps{Lookup: &fake{}, NotReady: ready}), "GET", "/hotkeys").Code)
}

func TestAMalformedKeyIsNotShownInClear(t *testing.T) {
	wide := table(t, "wide", 2, "a text", "b int", "v text").Schema
	for _, routing := range [][]byte{nil, {0}, {0, 9, 1}, {0, 1, 'x', 0}, {0, 1, 'x', 0, 0, 4, 1, 2}} {
		_, ok := clearKey(wide, routing)
		assert.False(t, ok, "%v", routing)
	}
}
