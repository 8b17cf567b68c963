package api

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"remit/proof/reason"
)

// TLSFiles name what a client needs for a nexus of its own house: the
// certificates of an authority that the machine does not know, and a certificate
// of the client's own if the nexus demands one. All are PEM files; the zero value
// is what the machine trusts, and no certificate.
type TLSFiles struct {
	CA        string // only these authorities are believed then
	Cert, Key string // they go together
}

// config reads the files; nil when there are none.
func (f TLSFiles) config() (*tls.Config, error) {
	if f == (TLSFiles{}) {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, badFile("ca", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, badFile("ca", fmt.Errorf("%q holds no certificate in PEM", f.CA))
		}
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, badFile("cert", errors.New("a certificate and its key go together"))
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, badFile("cert", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func badFile(field string, err error) error {
	e := reason.Errorf(reason.RequestInvalid, "reading the TLS files of the client: %w", err)
	e.Field = "tls-" + field
	return e.WithHint("want files in PEM")
}

// handshakeHint says what to do about a handshake that one of the two sides has
// refused; "" when that was not the trouble. Repeating does not help then.
func handshakeHint(err error) string {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "this machine does not trust the certificate of the nexus: --tls-ca or $REMIT_TLS_CA names the PEM file of its authority"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return "the nexus ended the handshake; if it demands a certificate of the client, --tls-cert and --tls-key, or $REMIT_TLS_CERT and $REMIT_TLS_KEY, name its PEM files"
	}
	if err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return "the nexus has no TLS there: use http:// if that is meant"
	}
	return ""
}
