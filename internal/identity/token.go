package identity

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// The limits of a token file.
const (
	maxTokenFile = 64 << 10
	// minToken keeps out what can be guessed; 22 characters of base64 are 128 bits.
	minToken = 16
)

// tokenForm is the form of a bearer token by RFC 6750.
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// ReadTokens returns the bearer tokens of a file: one in each line, so that the
// old and the new are both valid while callers change over. Empty lines and those
// that begin with # are skipped. No error shows a token.
func ReadTokens(file string) ([]string, error) {
	data, err := readSmall(file)
	if err != nil {
		return nil, err
	}
	var tokens []string
	number := 0
	for line := range bytes.Lines(data) {
		number++
		text := strings.TrimSpace(string(line))
		switch {
		case text == "" || text[0] == '#':
		case len(text) < minToken:
			return nil, fmt.Errorf("%s:%d: the token is shorter than %d characters; make one with 'openssl rand -base64 32'", file, number, minToken)
		case !tokenForm.MatchString(text):
			return nil, fmt.Errorf("%s:%d: is not a bearer token, which has letters, digits and ._~+/- only; make one with 'openssl rand -base64 32'", file, number)
		default:
			tokens = append(tokens, text)
		}
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%s holds no token; write one into a line of its own", file)
	}
	return tokens, nil
}

// readSmall reads a regular file of at most maxTokenFile bytes.
func readSmall(file string) ([]byte, error) {
	// Opening a pipe would wait for its other end.
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxTokenFile {
		return nil, fmt.Errorf("%s is larger than %d KiB; is it the right file?", file, maxTokenFile>>10)
	}
	return data, nil
}

// digest is what is kept of a token. A plain hash is enough: a token has too many
// bits to be found by trying.
type digest [sha256.Size]byte

// digestsOf reads the digests of a token file.
func digestsOf(file string) ([]digest, error) {
	tokens, err := ReadTokens(file)
	if err != nil {
		return nil, err
	}
	digests := make([]digest, len(tokens))
	for i, t := range tokens {
		digests[i] = sha256.Sum256([]byte(t))
	}
	return digests, nil
}

// holder is a client by one of its tokens.
type holder struct {
	digest digest
	client *Client
}

// holderOf returns the client of a token, nil when there is none. It takes the
// same time whichever token is given.
func holderOf(holders []holder, token string) *Client {
	given := digest(sha256.Sum256([]byte(token)))
	at := 0
	for i := range holders {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(given[:], holders[i].digest[:]), i+1, at)
	}
	if at == 0 {
		return nil
	}
	return holders[at-1].client
}
