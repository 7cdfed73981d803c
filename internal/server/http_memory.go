package server

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/memory"
)

// connKey is the context key of the connection of an HTTP request.
type connKey struct{}

// withConn stores the connection of HTTP requests in their contexts.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// withinMemory counts an HTTP request in the memory budget, from its headers to its answer.
func (s *Server) withinMemory(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*conn)
		if c == nil || c.memory == nil {
			next.ServeHTTP(w, r)
			return
		}
		cut := &cutter{response: http.NewResponseController(w)}
		defer cut.end()
		call, err := c.memory.Begin(cut.reading)
		if err != nil {
			writeError(w, errorOf(r, err))
			return
		}
		defer call.End()
		if r.ContentLength == 0 {
			_ = call.Complete(0, 0) // takes no memory
		}
		ctx := context.WithValue(r.Context(), callKey{}, call)
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, abortKey{}, cut.writing)))
	})
}

// cutter ends the reading or the writing of one HTTP request.
type cutter struct {
	mu       sync.Mutex
	response *http.ResponseController
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// reading ends the reading of the request. Errors cannot be reported to anyone.
func (c *cutter) reading() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.response != nil {
		_ = c.response.SetReadDeadline(past)
	}
}

// writing ends the writing of the answer.
func (c *cutter) writing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.response != nil {
		_ = c.response.SetWriteDeadline(past)
	}
}

// end disables the cutter: the connection goes on to its next request.
func (c *cutter) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.response = nil
}

// countedBody counts the bytes of a body as they arrive.
type countedBody struct {
	io.ReadCloser
	call *memory.Call
}

// Read implements io.Reader.
func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.call.Received(n)
	return n, err
}
