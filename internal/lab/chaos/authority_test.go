package chaos

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serverName is the name in certificates.
const serverName = "proxy.test"

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	private     *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "chaos"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &authority{certificate, private}, err
}

// pool returns a pool with only this authority.
func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.certificate)
	return p
}

// issue writes cert.pem and key.pem of the n-th certificate, with serial number n+1, into a folder.
// Each file is replaced atomically, one after the other.
func (a *authority) issue(dir string, n int) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(n) + 1), Subject: pkix.Name{CommonName: serverName}, DNSNames: []string{serverName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &private.PublicKey, a.private)
	if err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	if err := replace(filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})); err != nil {
		return err
	}
	return replace(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

// replace replaces a file by rename, as an editor does.
func replace(file string, data []byte) error {
	if err := os.WriteFile(file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func TestCertificatesOfAnAuthorityAreVerified(t *testing.T) {
	a, err := newAuthority()
	require.NoError(t, err)
	other, err := newAuthority()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, a.issue(dir, 4))
	text, err := os.ReadFile(filepath.Join(dir, "cert.pem"))
	require.NoError(t, err)
	block, _ := pem.Decode(text)
	leaf, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	assert.Equal(t, int64(5), leaf.SerialNumber.Int64())
	_, err = leaf.Verify(x509.VerifyOptions{Roots: a.pool(), DNSName: serverName})
	require.NoError(t, err)
	_, err = leaf.Verify(x509.VerifyOptions{Roots: other.pool(), DNSName: serverName})
	require.Error(t, err)
}
