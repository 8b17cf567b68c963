package registry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// certified starts a server under a certificate for the names of the tests, and
// returns the certificate for a CA file.
func certified(t *testing.T, handler *table) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"r.example", "cdn.example", "private.example", "metadata.example", "standin.example"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	handler.Server = httptest.NewUnstartedServer(handler)
	handler.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	handler.Config.ErrorLog = quiet // handshakes fail on purpose
	handler.StartTLS()
	t.Cleanup(handler.Close)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// secure is a front to a registry at r.example, over TLS and with a credential, and a
// network that has another server at cdn.example, and names for places where
// nothing may lead. All of them answer.
func secure(t *testing.T, e Ecosystem, base string, up, cdn *table) (way, *network) {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, slices.Concat(certified(t, up), certified(t, cdn)), 0o600); err != nil {
		t.Fatal(err)
	}
	at, other := up.Listener.Addr().String(), cdn.Listener.Addr().String()
	n := &network{
		names: map[string][]string{"r.example": {"8.8.8.8"}, "cdn.example": {"9.9.9.9"}, "private.example": {"10.0.0.1"}, "standin.example": {"198.18.0.1"},
			"metadata.example": {"169.254.169.254"}, "localhost": {"127.0.0.1"}, "intranet": {"9.9.9.9"}, "a.localhost": {"127.0.0.1"}, "2130706433": {"127.0.0.1"}},
		servers: map[string]string{"8.8.8.8:443": at, "9.9.9.9:443": other, "10.0.0.1:443": other, "127.0.0.1:443": other, "198.18.0.1:443": other,
			"169.254.169.254:443": other, "169.254.169.254:80": other, "9.9.9.9:80": other},
	}
	return open(t, Options{Upstreams: map[Ecosystem]Upstream{e: {URL: base, CAFile: ca, Auth: Bearer("s3cret")}}, Resolve: n.resolve, Dial: n.dial}), n
}
