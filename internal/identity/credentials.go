package identity

import (
	"crypto/x509"
	"errors"
	"strings"

	"github.com/qosproxy/qosproxy/internal/reasons"
)

// SocketHeader is the header, in gRPC the metadata key, by which a caller on a
// unix socket says who it is.
const SocketHeader = "qosproxy-client"

// Credentials are what a request brings to prove who sends it.
type Credentials struct {
	// Certificate is the leaf of a certificate chain that the listener has
	// verified; nil without one. An unverified certificate proves nothing and
	// must not be put here.
	Certificate *x509.Certificate
	// Authorization are the values of the header of that name.
	Authorization []string
	// Header are the values of SocketHeader.
	Header []string
	// Socket is whether the request came over a unix socket.
	Socket bool
}

// Reason is why a request is refused for who sent it. The set is bounded, fit for
// labels of metrics.
type Reason string

// The reasons for which it is not known who sent a request.
const (
	// Missing is a request without any credential.
	Missing Reason = "missing"
	// WrongToken is an Authorization header that is no bearer token of a client.
	WrongToken Reason = "token"
	// WrongHeader is a SocketHeader that names no client, or not on a unix socket.
	WrongHeader Reason = "header"
	// WrongCertificate is a verified certificate that names no client.
	WrongCertificate Reason = "certificate"
	// Conflict is credentials of which each names another client.
	Conflict Reason = "conflict"
)

// The reasons for which a known client may not have what it asks for.
const (
	// ForbiddenTable is a table that the client may not read.
	ForbiddenTable Reason = "table"
	// ForbiddenColumn is a column that the client may not read.
	ForbiddenColumn Reason = "column"
	// ForbiddenKeyspace is a keyspace of which the client may read no table.
	ForbiddenKeyspace Reason = "keyspace"
)

// Reasons are all of them.
var Reasons = []Reason{Missing, WrongToken, WrongHeader, WrongCertificate, Conflict, ForbiddenTable, ForbiddenColumn, ForbiddenKeyspace}

// ErrUnauthenticated means that it is not known who sent a request.
var ErrUnauthenticated = errors.New("unauthenticated")

// Error is why the client of a request is not known. It unwraps to
// ErrUnauthenticated.
type Error struct {
	// Reason is one of those for which it is not known who sent a request.
	Reason Reason
	// Message says what is wrong and what to do; fit for clients. It holds nothing
	// of what was presented.
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns ErrUnauthenticated.
func (e *Error) Unwrap() error { return ErrUnauthenticated }

// ClientReason implements reasons.Carrier.
func (e *Error) ClientReason() reasons.Reason { return reasons.Unauthenticated }

// The one message for each thing that can be wrong.
var (
	errMissing = &Error{Missing, "this proxy answers clients that it knows: send the header Authorization: Bearer TOKEN, " +
		"connect with a client certificate, or say who you are in " + SocketHeader + " over its unix socket"}
	errScheme   = &Error{WrongToken, "the header Authorization is not one bearer token; write Authorization: Bearer TOKEN"}
	errToken    = &Error{WrongToken, "the bearer token is that of no client; its operator can add it to the client's token_file"}
	errTrust    = &Error{WrongHeader, "the header " + SocketHeader + " is trusted over a unix socket only; remove it, or connect there"}
	errHeader   = &Error{WrongHeader, "the header " + SocketHeader + " is that of no client; its operator can set the client's socket_header"}
	errUnknown  = &Error{WrongCertificate, "the client certificate is that of no client; its operator can list its SPIFFE ID or DNS name under clients"}
	errConflict = &Error{Conflict, "the credentials of this request name different clients; send those of one"}
)

// bearer returns the token of an Authorization header, not ok when it is anything
// else than one bearer token.
func bearer(values []string) (token string, ok bool) {
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}
