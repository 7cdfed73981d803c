package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/qosproxy/qosproxy/internal/identity"
)

// The metadata key and the HTTP header of bearer tokens.
const (
	authorizationKey    = "authorization"
	authorizationHeader = "Authorization"
)

// openServices may be called by anybody: balancers ask for health, and tools for
// the description of the service. Neither says anything about tables.
var openServices = []string{
	"/grpc.health.v1.Health/",
	"/grpc.reflection.v1.ServerReflection/",
	"/grpc.reflection.v1alpha.ServerReflection/",
}

const openPath = "/openapi.json"

// isOpen reports whether anybody may call a method.
func isOpen(method string) bool {
	return slices.ContainsFunc(openServices, func(service string) bool { return strings.HasPrefix(method, service) })
}

// verified returns the certificate of a peer if its chain was verified, otherwise
// nil. A certificate that was sent but not verified counts as none.
func verified(state *tls.ConnectionState) *x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return nil
	}
	return state.VerifiedChains[0][0]
}

func isSocket(a net.Addr) bool { return a != nil && a.Network() == "unix" }

// identifyCall returns the context of a call with its client.
func (s *Server) identifyCall(ctx context.Context, method string) (context.Context, error) {
	if isOpen(method) {
		return ctx, nil
	}
	given := identity.Credentials{
		Authorization: metadata.ValueFromIncomingContext(ctx, authorizationKey),
		Header:        metadata.ValueFromIncomingContext(ctx, identity.SocketHeader),
	}
	from := ""
	if p, ok := peer.FromContext(ctx); ok {
		given.Socket = isSocket(p.LocalAddr)
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			given.Certificate = verified(&info.State)
		}
		if p.Addr != nil && !given.Socket {
			from = p.Addr.String()
		}
	}
	ctx, err := s.identify(ctx, given, from)
	if err != nil {
		return nil, grpcError(ctx, err)
	}
	s.connOf(ctx).identify()
	return ctx, nil
}

// identified refuses requests of unknown callers.
func (s *Server) identified(next http.Handler) http.Handler {
	header := http.CanonicalHeaderKey(identity.SocketHeader)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == openPath {
			next.ServeHTTP(w, r)
			return
		}
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		given := identity.Credentials{
			Certificate:   verified(r.TLS),
			Authorization: r.Header[authorizationHeader],
			Header:        r.Header[header],
			Socket:        isSocket(local),
		}
		from := r.RemoteAddr
		if given.Socket {
			from = ""
		}
		ctx, err := s.identify(r.Context(), given, from)
		if err != nil {
			writeError(w, errorOf(r, err))
			return
		}
		c, _ := r.Context().Value(connKey{}).(*conn)
		c.identify()
		if ctx != r.Context() {
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// identify returns the context of a request with its client.
func (s *Server) identify(ctx context.Context, given identity.Credentials, from string) (context.Context, error) {
	client, err := s.deps.Clients.Identify(given)
	switch {
	case err != nil:
		s.auditUnknown(ctx, err, from)
		return ctx, err
	case client == identity.Anonymous: // which is what a context without a client means
		return ctx, nil
	default:
		return identity.NewContext(ctx, client), nil
	}
}
