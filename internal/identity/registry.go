package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// followInterval is how often the token files are read again. They are small, and
// comparing their content detects changes more reliably than comparing time and
// size.
const followInterval = time.Second

// Member is a client with what identifies it. Any one of its credentials is enough.
type Member struct {
	// Client is the client. A nil Access in it means that it may read nothing.
	Client Client
	// SPIFFE are SPIFFE IDs, compared byte by byte, such as
	// spiffe://example.org/ns/shop/sa/checkout.
	SPIFFE []string
	// DNSNames are DNS names in certificates. Case is ignored, and a wildcard in a
	// certificate matches no other name.
	DNSNames []string
	// TokenFile is the path of a file of bearer tokens; see ReadTokens.
	TokenFile string
	// SocketHeader is the value of the header of that name.
	SocketHeader string
}

// Registry holds the clients in force. Requests read them without a lock, while
// Replace and Follow swap them as a whole. Until the first Replace, and in a nil
// Registry, everybody is Anonymous.
type Registry struct {
	log    *slog.Logger
	broken prometheus.Gauge

	clients atomic.Pointer[clients] // nil: everybody is Anonymous
	mu      sync.Mutex              // orders those who exchange clients
}

// NewRegistry returns a registry without clients. It registers its metric unless
// registerer is nil; a nil log discards.
func NewRegistry(registerer prometheus.Registerer, log *slog.Logger) *Registry {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Registry{log: log, broken: newBroken()}
	if registerer != nil {
		registerer.MustRegister(r.broken)
	}
	return r
}

// clients is one immutable state of a Registry.
type clients struct {
	members []member
	// Each map leads from a credential to its client.
	spiffe, dns, header map[string]*Client
	// holders are the tokens of all members.
	holders []holder
}

// member is a client with its tokens in force.
type member struct {
	client *Client
	file   string
	tokens []digest
	// problem is why the present content of the file is not used; empty if it is.
	problem string
}

// Replace swaps the clients in force atomically, for requests that begin from now
// on. No members let everybody in again. On an error nothing changes: a token file
// cannot be used, or two members share a name or credential. The error joins all
// such mistakes.
func (r *Registry) Replace(members []Member) error {
	commit, err := r.Prepare(members)
	if err == nil {
		commit()
	}
	return err
}

// Prepare does the part of Replace that can fail, and returns the rest as commit,
// which is nil on an error.
func (r *Registry) Prepare(members []Member) (commit func(), err error) {
	var next *clients
	if len(members) > 0 {
		if next, err = newClients(members); err != nil {
			return nil, err
		}
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.clients.Store(next)
		r.broken.Set(0)
	}, nil
}

func newClients(members []Member) (*clients, error) {
	c := &clients{spiffe: map[string]*Client{}, dns: map[string]*Client{}, header: map[string]*Client{}}
	var problems []error
	claim := func(what string, by map[string]*Client, value string, client *Client) {
		if other, taken := by[value]; taken {
			problems = append(problems, fmt.Errorf("clients %s and %s have the same %s %q; give it to one", other.Name, client.Name, what, value))
			return
		}
		by[value] = client
	}
	names := map[string]*Client{}
	for _, m := range members {
		client := m.Client
		if client.Access == nil {
			client.Access = &Access{}
		}
		claim("name", names, client.Name, &client)
		for _, id := range m.SPIFFE {
			claim("SPIFFE ID", c.spiffe, id, &client)
		}
		for _, name := range m.DNSNames {
			claim("DNS name", c.dns, strings.ToLower(name), &client)
		}
		if m.SocketHeader != "" {
			claim("socket header", c.header, m.SocketHeader, &client)
		}
		entry := member{client: &client, file: m.TokenFile}
		if m.TokenFile != "" {
			var err error
			if entry.tokens, err = digestsOf(m.TokenFile); err != nil {
				problems = append(problems, fmt.Errorf("token_file of client %s: %w", client.Name, err))
			}
		}
		c.members = append(c.members, entry)
	}
	if a, b, shared := sharedToken(c.members); shared {
		problems = append(problems, fmt.Errorf("clients %s and %s have a token in common; give each its own", c.members[a].client.Name, c.members[b].client.Name))
	}
	c.holders = holdersOf(c.members)
	return c, errors.Join(problems...)
}

// sharedToken returns the indices of two members with a common token, the lower one
// first.
func sharedToken(members []member) (a, b int, shared bool) {
	owner := map[digest]int{}
	for i, m := range members {
		for _, d := range m.tokens {
			if first, taken := owner[d]; taken && first != i {
				return first, i, true
			}
			owner[d] = i
		}
	}
	return 0, 0, false
}

func holdersOf(members []member) []holder {
	var holders []holder
	for _, m := range members {
		for _, d := range m.tokens {
			holders = append(holders, holder{d, m.client})
		}
	}
	return holders
}

// Identify returns the client of the credentials; Anonymous if there are no
// clients. No credential outranks another: all that a request has must be valid and
// name the same client. An exception is a verified certificate that names no
// client: a listener may ask everybody for one, so another credential still counts.
// The error is an *Error.
func (r *Registry) Identify(c Credentials) (*Client, error) {
	if r == nil {
		return Anonymous, nil
	}
	known := r.clients.Load()
	if known == nil {
		return Anonymous, nil
	}
	var found *Client
	for _, recognise := range []func(Credentials) (*Client, *Error){known.byToken, known.byHeader, known.byCertificate} {
		client, err := recognise(c)
		switch {
		case err != nil:
			return nil, err
		case client != nil && found != nil && client != found:
			return nil, errConflict
		case client != nil:
			found = client
		}
	}
	switch {
	case found != nil:
		return found, nil
	case c.Certificate != nil:
		return nil, errUnknown
	default:
		return nil, errMissing
	}
}

func (c *clients) byToken(given Credentials) (*Client, *Error) {
	if len(given.Authorization) == 0 {
		return nil, nil //nolint:nilnil // No token is neither a client nor a mistake.
	}
	token, ok := bearer(given.Authorization)
	if !ok {
		return nil, errScheme
	}
	if client := holderOf(c.holders, token); client != nil {
		return client, nil
	}
	return nil, errToken
}

func (c *clients) byHeader(given Credentials) (*Client, *Error) {
	switch {
	case len(given.Header) == 0:
		return nil, nil //nolint:nilnil // No header is neither a client nor a mistake.
	case !given.Socket:
		return nil, errTrust
	case len(given.Header) > 1:
		return nil, errHeader
	}
	if client := c.header[given.Header[0]]; client != nil {
		return client, nil
	}
	return nil, errHeader
}

// byCertificate returns the client that the certificate names; nil if it names
// none.
func (c *clients) byCertificate(given Credentials) (*Client, *Error) {
	if given.Certificate == nil {
		return nil, nil //nolint:nilnil // No certificate is neither a client nor a mistake.
	}
	found := c.spiffe[spiffeID(given.Certificate)]
	for _, name := range given.Certificate.DNSNames {
		client := c.dns[strings.ToLower(name)]
		if client != nil && found != nil && client != found {
			return nil, errConflict
		}
		if client != nil {
			found = client
		}
	}
	return found, nil
}

// spiffeID returns the SPIFFE ID of a certificate; empty if there is none. The
// standard allows one URI in a certificate: if there are more, none can be relied
// on.
func spiffeID(certificate *x509.Certificate) string {
	if len(certificate.URIs) != 1 || certificate.URIs[0].Scheme != "spiffe" {
		return ""
	}
	return certificate.URIs[0].String()
}

// Follow keeps the tokens current until ctx ends: it uses a changed file within
// seconds. A file that is missing or cannot be used is logged and counted, and the
// tokens that were last read from it stay valid.
func (r *Registry) Follow(ctx context.Context) {
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.refresh()
		case <-ctx.Done():
			return
		}
	}
}

// refresh reads the token files, and swaps the clients if one has changed.
func (r *Registry) refresh() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clients.Load()
	if now == nil {
		return
	}
	next := *now
	next.members = slices.Clone(now.members)
	for i := range next.members {
		next.members[i].reread()
	}
	// The tokens in force have none in common, so going back to them ends this
	// loop.
	for a, b, shared := sharedToken(next.members); shared; a, b, shared = sharedToken(next.members) {
		next.members[a].goBack(now.members[a], next.members[b].client.Name)
		next.members[b].goBack(now.members[b], next.members[a].client.Name)
	}
	broken, changed := 0, false
	for i := range next.members {
		m, before := &next.members[i], &now.members[i]
		switch {
		case m.problem != "":
			broken++
			if m.problem != before.problem {
				r.log.Error("token file not used; the tokens before it stay valid", "client", m.client.Name, "problem", m.problem)
			}
		case !slices.Equal(m.tokens, before.tokens) || before.problem != "":
			r.log.Info("token file read again", "client", m.client.Name, "tokens", len(m.tokens))
		}
		changed = changed || m.problem != before.problem || !slices.Equal(m.tokens, before.tokens)
	}
	r.broken.Set(float64(broken))
	if changed {
		next.holders = holdersOf(next.members)
		r.clients.Store(&next)
	}
}

// reread takes the current tokens from the file of a member.
func (m *member) reread() {
	if m.file == "" {
		return
	}
	tokens, err := digestsOf(m.file)
	if err != nil {
		m.problem = err.Error()
		return
	}
	m.tokens, m.problem = tokens, ""
}

// goBack restores the tokens of before if the present ones are new. other is the
// client with a token in common.
func (m *member) goBack(before member, other string) {
	if !slices.Equal(m.tokens, before.tokens) {
		m.tokens, m.problem = before.tokens, fmt.Sprintf("%s holds a token of client %s", m.file, other)
	}
}
