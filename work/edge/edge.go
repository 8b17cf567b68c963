// Package edge is what the ways out of a sandbox have in common: the gateway to
// a model and the front to the registries.
//
// It reads what the user configured outside (a CA file, a proxy) without ever
// repeating it in an error, since a path or an address does not belong into
// evidence; and it bounds how many connections the inside can open.
package edge

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
)

// maxCAFile is several times the size of a system's whole bundle.
const maxCAFile = 4 << 20

// ErrNoCertificate says that a CA file has no PEM certificate in it.
var ErrNoCertificate = errors.New("the CA file has no PEM certificate in it")

// Roots are the system's certificates and those of a PEM file; nil, for no
// file, means the system's alone.
func Roots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := ReadFile(file, maxCAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the CA file: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, ErrNoCertificate
	}
	return roots, nil
}

// ErrProxy says that a proxy's address cannot be used.
var ErrProxy = errors.New("no http, https or socks5 URL")

// Proxy reads the address of a proxy; "" is none.
func Proxy(address string) (*url.URL, error) {
	if address == "" {
		return nil, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) {
		return nil, ErrProxy
	}
	return u, nil
}

// ReadFile reads a regular file of at most limit bytes. Its errors do not name
// the file.
func ReadFile(name string, limit int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, withoutPath(err)
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("it is no regular file of at most %d bytes", limit)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, withoutPath(err)
	}
	return b, nil
}

// withoutPath is what went wrong with a file, without saying which.
func withoutPath(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
