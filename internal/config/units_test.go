package config

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPercent(t *testing.T) {
	for text, want := range map[string]Percent{
		"2%": 0.02, "0.02": 0.02, "100%": 1, "0": 0, "0%": 0, " 0.5 % ": 0.005, "-3%": -0.03, "150%": 1.5, ".5": 0.5,
	} {
		got, err := ParsePercent(text)
		require.NoError(t, err, text)
		assert.InDelta(t, float64(want), float64(got), 1e-15, text)
	}
	for _, text := range []string{"", "%", "2", "1", "-1", "two", "NaN", "NaN%", "Inf%", "1e999%", "2%%"} {
		_, err := ParsePercent(text)
		require.Error(t, err, text)
	}
	assert.Equal(t, "7%", Percent(0.07).String())
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"4MiB": 4 << 20, "4MB": 4e6, "4194304": 4 << 20, "4 KiB": 4096, "1.5MiB": 3 << 19, "2Gi": 2 << 30, "3kB": 3000, "3KB": 3000,
		"7B": 7, "0": 0, "-1": -1, " 5 ": 5,
	} {
		got, err := ParseBytes(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "MiB", "4 MiBB", "1.5", "0.3B", "NaN", "Inf", "1e300GiB", "4mib", "9223372036854775807"} {
		_, err := ParseBytes(text)
		require.Error(t, err, text)
	}
	assert.Equal(t, "4MiB", Bytes(4<<20).String())
	assert.Equal(t, "4MB", Bytes(4e6).String())
	assert.Equal(t, "4097", Bytes(4097).String())
	assert.Equal(t, "0", Bytes(0).String())
}

func TestUnitsReadWhatTheyWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bytes(rapid.Int64Range(-maxBytes, maxBytes).Draw(t, "bytes"))
		got, err := ParseBytes(b.String())
		require.NoError(t, err)
		assert.Equal(t, b, got)

		p := Percent(float64(rapid.IntRange(-1e6, 1e6).Draw(t, "percent")) / 1e6)
		share, err := ParsePercent(p.String())
		require.NoError(t, err)
		assert.InDelta(t, float64(p), float64(share), 1e-12)

		d := time.Duration(rapid.Int64Range(math.MinInt64+1, math.MaxInt64).Draw(t, "duration"))
		back, err := parseDuration(formatDuration(d))
		require.NoError(t, err)
		assert.Equal(t, d, back)
	})
	for d, want := range map[time.Duration]string{
		0: "0s", time.Minute: "1m", 10 * time.Minute: "10m", time.Hour: "1h", 10 * time.Hour: "10h", 70 * time.Minute: "1h10m",
		90 * time.Second: "1m30s", 15 * time.Millisecond: "15ms", time.Hour + time.Second: "1h0m1s",
	} {
		assert.Equal(t, want, formatDuration(d))
	}
}

func TestTableNames(t *testing.T) {
	for text, want := range map[string]TableName{
		"shop.products":             {"shop", "products"},
		"_a1.2b":                    {"_a1", "2b"},
		`"Shop"."My Table"`:         {"Shop", "My Table"},
		`"a.b".c`:                   {"a.b", "c"},
		`"say ""hi"""."x"`:          {`say "hi"`, "x"},
		`"shop"."products"`:         {"shop", "products"},
		`"` + "\u00e9" + `".` + "a": {"\u00e9", "a"},
	} {
		got, err := ParseTableName(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", ".", "shop", "shop.", ".products", "a.b.c", "Shop.products", "shop.prod-ucts", `"a`, `"".b`, `"a"b`, `"a"."b"c`, " a.b"} {
		_, err := ParseTableName(text)
		require.ErrorIs(t, err, errTableName, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := TableName{rapid.StringN(1, 9, -1).Draw(t, "keyspace"), rapid.StringN(1, 9, -1).Draw(t, "table")}
		text, err := n.MarshalText()
		require.NoError(t, err)
		var got TableName
		require.NoError(t, got.UnmarshalText(text))
		assert.Equal(t, n, got)
	})
}

func TestAddresses(t *testing.T) {
	for address, fine := range map[string]bool{
		"": true, ":8080": true, "127.0.0.1:0": true, "[::1]:65535": true, "localhost:80": true, "unix:///run/a.sock": true,
		"8080": false, "localhost": false, "localhost:http": false, "a:65536": false, "a:-1": false, "::1:80": false,
		"unix://": false, "unix://run/a.sock": false, "unix:///" + string(make([]byte, 200)): false, "tcp://a:80": false,
	} {
		assert.Equal(t, fine, badAddress(address) == "", "%q: %s", address, badAddress(address))
	}
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"a:1", "a:1", true}, {"a:1", "a:2", false}, {"a:1", "b:1", false}, {":1", "a:1", true}, {"a:1", "0.0.0.0:1", true},
		{"[::]:1", "a:1", true}, {"a:0", "a:0", false}, {"unix:///a", "unix:///a", true}, {"unix:///a", "unix:///b", false}, {"", "", false},
	} {
		assert.Equal(t, tc.want, collide(tc.a, tc.b), "%s %s", tc.a, tc.b)
	}
	for p, fine := range map[string]bool{
		"10.0.0.1": true, "cassandra.svc": true, "host:9043": true, "::1": true, "[::1]:9042": true, "2001:db8::1": true,
		"": false, " ": false, "a,b": false, "host:": false, "host:0": false, ":9042": false, "user@host": false, "[::1]": false, "host:cql": false,
	} {
		assert.Equal(t, fine, contactPoint(p), "%q", p)
	}
}
