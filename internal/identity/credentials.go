package identity

import (
	"crypto/x509"
	"errors"
	"strings"

	"github.com/qosproxy/qosproxy/internal/reasons"
)

// SocketHeader is the header, or in gRPC the metadata key, in which a caller on a
// unix socket names itself.
const SocketHeader = "qosproxy-client"

// Credentials are what a request contains to prove who sent it.
type Credentials struct {
	// Certificate is the leaf of a certificate chain that the listener has
	// verified; nil without one. It must not be an unverified certificate, which
	// proves nothing.
	Certificate *x509.Certificate
	// Authorization are the values of the header of that name.
	Authorization []string
	// Header are the values of SocketHeader.
	Header []string
	// Socket is whether the request arrived over a unix socket.
	Socket bool
}

// Reason is why a request is refused because of who sent it. The set is bounded,
// so that it can be a metric label.
type Reason string

// The reasons for which the sender of a request is not known.
const (
	// Missing means that there is no credential.
	Missing Reason = "missing"
	// WrongToken means that the Authorization header is not a bearer token of a
	// client.
	WrongToken Reason = "token"
	// WrongHeader means that SocketHeader names no client, or came over TCP.
	WrongHeader Reason = "header"
	// WrongCertificate means that a verified certificate names no client.
	WrongCertificate Reason = "certificate"
	// Conflict means that the credentials name different clients.
	Conflict Reason = "conflict"
)

// The reasons for which a known client may not read what it asks for.
const (
	// ForbiddenTable means a table that the client may not read.
	ForbiddenTable Reason = "table"
	// ForbiddenColumn means a column that the client may not read.
	ForbiddenColumn Reason = "column"
	// ForbiddenKeyspace means a keyspace of which the client may read no table.
	ForbiddenKeyspace Reason = "keyspace"
)

// Reasons lists all reasons.
var Reasons = []Reason{Missing, WrongToken, WrongHeader, WrongCertificate, Conflict, ForbiddenTable, ForbiddenColumn, ForbiddenKeyspace}

// ErrUnauthenticated means that the sender of a request is not known.
var ErrUnauthenticated = errors.New("unauthenticated")

// Error is why the sender of a request is not known. It unwraps to
// ErrUnauthenticated.
type Error struct {
	// Reason is one of those from Missing to Conflict.
	Reason Reason
	// Message says what is wrong and what to do. It is fit for clients, and
	// contains nothing of the credentials.
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns ErrUnauthenticated.
func (e *Error) Unwrap() error { return ErrUnauthenticated }

// ClientReason implements reasons.Carrier.
func (e *Error) ClientReason() reasons.Reason { return reasons.Unauthenticated }

// The message for each thing that can be wrong.
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

// bearer returns the token of an Authorization header. ok is false unless there is
// exactly one bearer token.
func bearer(values []string) (token string, ok bool) {
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}
