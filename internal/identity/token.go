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
	// minToken keeps out guessable tokens; 22 characters of base64 are 128 bits.
	minToken = 16
)

// tokenForm is the form of a bearer token in RFC 6750.
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// ReadTokens returns the bearer tokens of a file, one per line, so that an old and
// a new token are both valid while callers change over. It skips empty lines and
// those that begin with #. No error contains a token.
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
	// Opening a named pipe would block until its other end is opened.
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

// digest is what is stored of a token. A plain hash is enough: a token has too many
// bits to be guessed.
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

// holder is one token of a client.
type holder struct {
	digest digest
	client *Client
}

// holderOf returns the client of a token; nil if there is none. It takes the same
// time for every token.
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
