package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tokens of the tests.
const (
	tokenA = "aaaaaaaaaaaaaaaaaaaaaa"
	tokenB = "bbbbbbbbbbbbbbbbbbbbbb"
	tokenC = "cccccccccccccccccccccc"
)

// tokenFile writes tokens, one per line, and returns the path.
func tokenFile(t *testing.T, name string, tokens ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(tokens, "\n")), 0o600))
	return path
}

// certificate returns one with the given names; those with a scheme become URIs.
func certificate(t *testing.T, names ...string) *x509.Certificate {
	t.Helper()
	c := &x509.Certificate{}
	for _, name := range names {
		if !strings.Contains(name, "://") {
			c.DNSNames = append(c.DNSNames, name)
			continue
		}
		u, err := url.Parse(name)
		require.NoError(t, err)
		c.URIs = append(c.URIs, u)
	}
	return c
}

func registry(t *testing.T, members ...Member) *Registry {
	t.Helper()
	r := NewRegistry(nil, nil)
	require.NoError(t, r.Replace(members))
	return r
}

func TestARequestIsOfTheClientThatItsCredentialsName(t *testing.T) {
	r := registry(t,
		Member{Client: Client{Name: "a"}, TokenFile: tokenFile(t, "a", tokenA, "# next", tokenB), SocketHeader: "alpha", SPIFFE: []string{"spiffe://x/a"}},
		Member{Client: Client{Name: "c"}, TokenFile: tokenFile(t, "c", tokenC), SocketHeader: "gamma", DNSNames: []string{"C.example.org", "d.example.org"}},
	)
	bearer := func(token string) []string { return []string{"Bearer " + token} }
	for what, c := range map[string]struct {
		given  Credentials
		client string
		reason Reason
	}{
		"nothing":                             {Credentials{}, "", Missing},
		"a token":                             {Credentials{Authorization: bearer(tokenA)}, "a", ""},
		"the other token of the file":         {Credentials{Authorization: bearer(tokenB)}, "a", ""},
		"the token of another":                {Credentials{Authorization: bearer(tokenC)}, "c", ""},
		"a scheme in small letters":           {Credentials{Authorization: []string{"bearer  " + tokenA}}, "a", ""},
		"a wrong token":                       {Credentials{Authorization: bearer(tokenA + "x")}, "", WrongToken},
		"the beginning of a token":            {Credentials{Authorization: bearer(tokenA[:20])}, "", WrongToken},
		"an empty token":                      {Credentials{Authorization: bearer("")}, "", WrongToken},
		"no scheme":                           {Credentials{Authorization: []string{tokenA}}, "", WrongToken},
		"another scheme":                      {Credentials{Authorization: []string{"Basic " + tokenA}}, "", WrongToken},
		"an empty header":                     {Credentials{Authorization: []string{""}}, "", WrongToken},
		"two tokens":                          {Credentials{Authorization: []string{"Bearer " + tokenA, "Bearer " + tokenA}}, "", WrongToken},
		"a name on a socket":                  {Credentials{Header: []string{"gamma"}, Socket: true}, "c", ""},
		"a name elsewhere":                    {Credentials{Header: []string{"gamma"}}, "", WrongHeader},
		"the name of the client, not its own": {Credentials{Header: []string{"c"}, Socket: true}, "", WrongHeader},
		"two names":                           {Credentials{Header: []string{"gamma", "gamma"}, Socket: true}, "", WrongHeader},
		"an empty name":                       {Credentials{Header: []string{""}, Socket: true}, "", WrongHeader},
		"a socket alone":                      {Credentials{Socket: true}, "", Missing},
		"a SPIFFE ID":                         {Credentials{Certificate: certificate(t, "spiffe://x/a")}, "a", ""},
		"a SPIFFE ID in other case":           {Credentials{Certificate: certificate(t, "spiffe://x/A")}, "", WrongCertificate},
		"two URIs":                            {Credentials{Certificate: certificate(t, "spiffe://x/a", "spiffe://x/b")}, "", WrongCertificate},
		"a DNS name":                          {Credentials{Certificate: certificate(t, "c.Example.org")}, "c", ""},
		"two DNS names of one client":         {Credentials{Certificate: certificate(t, "c.example.org", "d.example.org", "e")}, "c", ""},
		"a wildcard":                          {Credentials{Certificate: certificate(t, "*.example.org")}, "", WrongCertificate},
		"a certificate without names":         {Credentials{Certificate: certificate(t)}, "", WrongCertificate},
		"a certificate of two clients":        {Credentials{Certificate: certificate(t, "spiffe://x/a", "c.example.org")}, "", Conflict},
		"a certificate of nobody and a token": {Credentials{Certificate: certificate(t, "proxy"), Authorization: bearer(tokenC)}, "c", ""},
		"a certificate and its token":         {Credentials{Certificate: certificate(t, "spiffe://x/a"), Authorization: bearer(tokenA)}, "a", ""},
		"a certificate and another's token":   {Credentials{Certificate: certificate(t, "spiffe://x/a"), Authorization: bearer(tokenC)}, "", Conflict},
		"a certificate and a wrong token":     {Credentials{Certificate: certificate(t, "spiffe://x/a"), Authorization: bearer("x")}, "", WrongToken},
		"a certificate and a wrong name":      {Credentials{Certificate: certificate(t, "spiffe://x/a"), Header: []string{"b"}, Socket: true}, "", WrongHeader},
		"a token and a name elsewhere":        {Credentials{Authorization: bearer(tokenA), Header: []string{"alpha"}}, "", WrongHeader},
		"a token and another's name":          {Credentials{Authorization: bearer(tokenA), Header: []string{"gamma"}, Socket: true}, "", Conflict},
		"everything":                          {Credentials{Certificate: certificate(t, "spiffe://x/a"), Authorization: bearer(tokenA), Header: []string{"alpha"}, Socket: true}, "a", ""},
	} {
		t.Run(what, func(t *testing.T) {
			client, err := r.Identify(c.given)
			if c.reason == "" {
				require.NoError(t, err)
				assert.Equal(t, c.client, client.Name)
				return
			}
			assert.Nil(t, client)
			require.ErrorIs(t, err, ErrUnauthenticated)
			var refused *Error
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, c.reason, refused.Reason)
			assert.Contains(t, Reasons, c.reason)
			for _, secret := range append(c.given.Authorization, c.given.Header...) {
				if len(secret) > len("Bearer ") {
					assert.NotContains(t, err.Error(), secret)
				}
			}
		})
	}
}

func TestWhereThereAreNoClientsEverybodyIsAnonymous(t *testing.T) {
	emptied := registry(t, Member{Client: Client{Name: "a"}, SocketHeader: "a"})
	require.NoError(t, emptied.Replace(nil))
	for what, r := range map[string]*Registry{"nil": nil, "new": NewRegistry(nil, nil), "emptied": emptied} {
		client, err := r.Identify(Credentials{Authorization: []string{"Basic x"}, Header: []string{"x"}})
		require.NoError(t, err, what)
		assert.Same(t, Anonymous, client, what)
	}
	columns, may := Anonymous.Access.Table("any", "table")
	assert.True(t, may)
	assert.Empty(t, columns)
	assert.True(t, Anonymous.Access.Keyspace("any"))
}

func TestAMemberWithoutAccessMayReadNothing(t *testing.T) {
	client, err := registry(t, Member{Client: Client{Name: "a"}, SocketHeader: "a"}).Identify(Credentials{Header: []string{"a"}, Socket: true})
	require.NoError(t, err)
	_, may := client.Access.Table("any", "table")
	assert.False(t, may)
	assert.False(t, client.Access.Keyspace("any"))
}

func TestMembersThatCannotBeToldApartAreRefusedAndNothingChanges(t *testing.T) {
	before := Member{Client: Client{Name: "before"}, SocketHeader: "before"}
	r := registry(t, before)
	for what, c := range map[string]struct {
		a, b Member
		says string
	}{
		"name":          {Member{Client: Client{Name: "a"}}, Member{Client: Client{Name: "a"}}, "the same name"},
		"SPIFFE ID":     {Member{SPIFFE: []string{"spiffe://x/a"}}, Member{SPIFFE: []string{"spiffe://x/a"}}, "the same SPIFFE ID"},
		"DNS name":      {Member{DNSNames: []string{"a"}}, Member{DNSNames: []string{"A"}}, "the same DNS name"},
		"socket header": {Member{SocketHeader: "a"}, Member{SocketHeader: "a"}, "the same socket header"},
		"token": {Member{TokenFile: tokenFile(t, "a", tokenA)}, Member{TokenFile: tokenFile(t, "b", tokenB, tokenA)},
			"a token in common"},
		"a file that is gone": {Member{TokenFile: "/none"}, Member{}, "no such file"},
	} {
		if c.a.Client.Name == "" {
			c.a.Client.Name, c.b.Client.Name = "a", "b"
		}
		err := r.Replace([]Member{c.a, c.b})
		require.ErrorContains(t, err, c.says, what)
		assert.NotContains(t, err.Error(), tokenA)
		client, err := r.Identify(Credentials{Header: []string{"before"}, Socket: true})
		require.NoError(t, err)
		assert.Equal(t, "before", client.Name, what)
	}
}

func TestTokenFiles(t *testing.T) {
	for what, c := range map[string]struct{ content, says string }{
		"two and a comment":    {"# of May\r\n" + tokenA + "  \r\n\n" + tokenB, ""},
		"base64":               {"q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ==", ""},
		"nothing":              {"", "holds no token"},
		"comments":             {"#a\n#b\n", "holds no token"},
		"a short one":          {tokenA + "\nsecret\n", ":2: the token is shorter than 16"},
		"two in one line":      {tokenA + " " + tokenB, ":1: is not a bearer token"},
		"not ASCII":            {"äääääääääääääääää", ":1: is not a bearer token"},
		"the wrong file":       {strings.Repeat("x", maxTokenFile+1), "is larger than 64 KiB"},
		"a good one and a bad": {tokenA + "\n-----BEGIN PRIVATE KEY-----", ":2: is not a bearer token"},
	} {
		file := tokenFile(t, "tokens", c.content)
		tokens, err := ReadTokens(file)
		if c.says == "" {
			require.NoError(t, err, what)
			assert.NotEmpty(t, tokens, what)
			continue
		}
		require.ErrorContains(t, err, c.says, what)
		assert.NotContains(t, err.Error(), "secret", what)
		assert.Empty(t, tokens, what)
	}
	_, err := ReadTokens(t.TempDir())
	require.ErrorContains(t, err, "is not a regular file")
}

func TestOnlyHashesOfTokensAreKept(t *testing.T) {
	r := registry(t, Member{Client: Client{Name: "a"}, TokenFile: tokenFile(t, "a", tokenA)})
	held := fmt.Sprintf("%+v", *r.clients.Load())
	assert.Contains(t, held, strings.Trim(fmt.Sprint(sha256.Sum256([]byte(tokenA))), "[]"))
	assert.NotContains(t, held, tokenA)
	assert.NotContains(t, held, strings.Trim(fmt.Sprintf("%d", []byte(tokenA)), "[]"))
}

// following is a registry whose clients a and b are followed in a synctest bubble.
type following struct {
	*Registry
	log  bytes.Buffer
	a, b string
}

func follow(t *testing.T, a, b string) *following {
	f := &following{a: a, b: b}
	f.Registry = NewRegistry(nil, slog.New(slog.NewTextHandler(&f.log, nil)))
	require.NoError(t, f.Replace([]Member{
		{Client: Client{Name: "a"}, TokenFile: a}, {Client: Client{Name: "b"}, TokenFile: b}, {Client: Client{Name: "c"}, SocketHeader: "c"},
	}))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Follow(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return f
}

// settle waits until a change must have been noticed.
func settle() {
	time.Sleep(followInterval + time.Millisecond)
	synctest.Wait()
}

// of returns the name of the client of a token; empty if there is none.
func (f *following) of(token string) string {
	client, err := f.Identify(Credentials{Authorization: []string{"Bearer " + token}})
	if err != nil {
		return ""
	}
	return client.Name
}

func (f *following) write(t *testing.T, file string, tokens ...string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(tokens, "\n")), 0o600))
	settle()
}

func TestTokensFollowTheirFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, tokenFile(t, "a", tokenA), tokenFile(t, "b", tokenB))
		f.write(t, f.a, tokenA, tokenC)
		assert.Equal(t, []string{"a", "b", "a"}, []string{f.of(tokenA), f.of(tokenB), f.of(tokenC)}, "both are valid")
		f.write(t, f.a, tokenC)
		assert.Equal(t, []string{"", "b", "a"}, []string{f.of(tokenA), f.of(tokenB), f.of(tokenC)}, "the old one is withdrawn")
		f.write(t, f.a, tokenA)
		assert.Equal(t, []string{"a", "b", ""}, []string{f.of(tokenA), f.of(tokenB), f.of(tokenC)}, "a file of the same size is seen too")
	})
}

func TestABrokenTokenFileKeepsTheTokensBeforeIt(t *testing.T) {
	for what, breakIt := range map[string]func(t *testing.T, file string) error{
		"gone":    func(_ *testing.T, file string) error { return os.Remove(file) },
		"empty":   func(_ *testing.T, file string) error { return os.Truncate(file, 0) },
		"garbage": func(_ *testing.T, file string) error { return os.WriteFile(file, []byte("not a token at all"), 0o600) },
		"a token of another": func(_ *testing.T, file string) error {
			return os.WriteFile(file, []byte(tokenC+"\n"+tokenB), 0o600)
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := follow(t, tokenFile(t, "a", tokenA), tokenFile(t, "b", tokenB))
				require.NoError(t, breakIt(t, f.a))
				for range 3 {
					settle()
				}
				assert.Equal(t, []string{"a", "b", ""}, []string{f.of(tokenA), f.of(tokenB), f.of(tokenC)})
				assert.Equal(t, 1.0, testutil.ToFloat64(f.broken))
				assert.Equal(t, 1, strings.Count(f.log.String(), "token file not used"), "said once: %s", &f.log)

				f.write(t, f.a, tokenC)
				assert.Equal(t, []string{"", "b", "a"}, []string{f.of(tokenA), f.of(tokenB), f.of(tokenC)}, "it recovers")
				assert.Zero(t, testutil.ToFloat64(f.broken))
				for _, token := range []string{tokenA, tokenB, tokenC} {
					assert.NotContains(t, f.log.String(), token)
				}
			})
		})
	}
}

func TestTokensMayChangeHands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, tokenFile(t, "a", tokenA), tokenFile(t, "b", tokenB))
		require.NoError(t, os.WriteFile(f.a, []byte(tokenB), 0o600))
		f.write(t, f.b, tokenC)
		assert.Equal(t, []string{"", "a", "b"}, []string{f.of(tokenA), f.of(tokenB), f.of(tokenC)})
	})
}

// TestTokensOfASecretVolume swaps a directory as Kubernetes does.
func TestTokensOfASecretVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for version, token := range map[string]string{"1": tokenA, "2": tokenC} {
			require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, version, "token"), []byte(token), 0o600))
		}
		require.NoError(t, os.Symlink("1", filepath.Join(dir, "..data")))
		require.NoError(t, os.Symlink("..data/token", filepath.Join(dir, "token")))
		f := follow(t, filepath.Join(dir, "token"), tokenFile(t, "b", tokenB))
		assert.Equal(t, "a", f.of(tokenA))

		require.NoError(t, os.Symlink("2", filepath.Join(dir, "..new")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
		settle()
		assert.Equal(t, []string{"", "a"}, []string{f.of(tokenA), f.of(tokenC)})
	})
}

func TestWhatIsPreparedIsNotInForceBeforeItIsCommitted(t *testing.T) {
	r := NewRegistry(nil, nil)
	commit, err := r.Prepare([]Member{{Client: Client{Name: "a"}, SocketHeader: "a"}})
	require.NoError(t, err)
	_, err = r.Identify(Credentials{})
	require.NoError(t, err)
	commit()
	_, err = r.Identify(Credentials{})
	require.ErrorIs(t, err, ErrUnauthenticated)
	commit, err = r.Prepare([]Member{{TokenFile: "/none"}})
	require.Error(t, err)
	assert.Nil(t, commit)
}

// TestClientsAreExchangedAsAWhole identifies callers while the clients change;
// each answer must be of one set or of the other.
func TestClientsAreExchangedAsAWhole(t *testing.T) {
	set := func(name, token string) []Member {
		return []Member{{Client: Client{Name: name}, TokenFile: tokenFile(t, name, token), SocketHeader: "x"}}
	}
	sets := [][]Member{set("a", tokenA), set("b", tokenB)}
	r := registry(t, sets[0]...)
	var asking sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				client, err := r.Identify(Credentials{Header: []string{"x"}, Socket: true, Authorization: []string{"Bearer " + tokenA}})
				if err == nil && client.Name != "a" {
					t.Errorf("the token of a with the header of %s", client.Name)
				}
			}
		})
	}
	for i := range 200 {
		require.NoError(t, r.Replace(sets[i%2]))
		r.refresh()
	}
	close(stop)
	asking.Wait()
}
