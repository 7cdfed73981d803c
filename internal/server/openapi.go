package server

import (
	_ "embed"
	"net/http"
)

// openAPI describes the HTTP/JSON API to clients and their generators.
//
//go:embed openapi.json
var openAPI []byte

func (s *Server) serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, openAPI)
}
