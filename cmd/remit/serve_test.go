package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/nexus/api"
)

// TestServe runs a nexus, talks to it, and runs it again on the same data.
func TestServe(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := serveNexus(t, "--data", data)
	if p.Token == "" {
		t.Fatal("a fresh nexus has no administrator")
	}
	c, err := api.Connect(p.URL, p.Token, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	account, err := c.OpenAccountWithResponse(t.Context(), &api.OpenAccountParams{IdempotencyKey: "open"}, api.AccountRequest{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if account.JSON201 == nil || account.JSON201.Owner != "admin" {
		t.Errorf("got %s", account.Body)
	}
	command := func(args ...string) (string, string, error) {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(os.Environ(), "REMIT_HOME="+t.TempDir(), "REMIT_NEXUS="+p.URL, "REMIT_TOKEN="+p.Token)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		return out.String(), errs.String(), err
	}
	out, errs, err := command("treasury", "summary")
	if err != nil || !strings.Contains(out, account.JSON201.AccountID) {
		t.Errorf("%v: %s%s", err, out, errs)
	}
	out, errs, err = command("treasury", "reconcile", "--json")
	if err != nil || !strings.Contains(out, `"expired_reservations": 0`) {
		t.Errorf("%v: %s%s", err, out, errs)
	}
	if _, errs, err = command("treasury", "summary", "--token-file", "/dev/null"); err == nil || !strings.Contains(errs, "does not hold one token") {
		t.Errorf("%v: %s", err, errs)
	}
	p.stop(t)
	if _, errs, err = command("treasury", "summary"); err == nil || !strings.Contains(errs, "hint: check that `remit serve` runs") {
		t.Errorf("%v: %s", err, errs)
	}

	again := serveNexus(t, "--data", data)
	if again.Token != "" {
		t.Error("a second administrator was made")
	}
	if c, err = api.Connect(again.URL, p.Token, api.Options{}); err != nil {
		t.Fatal(err)
	}
	replay, err := c.OpenAccountWithResponse(t.Context(), &api.OpenAccountParams{IdempotencyKey: "open"}, api.AccountRequest{Limit: 1000})
	if err != nil || !bytes.Equal(replay.Body, account.Body) || replay.HTTPResponse.Header.Get(api.HeaderReplayed) != "true" {
		t.Errorf("%v: %s", err, replay.Body)
	}
	again.stop(t)
	if entries, err := filepath.Glob(filepath.Join(data, "*")); err != nil || len(entries) == 0 {
		t.Errorf("nothing was kept: %v", err)
	}
}

// TestServeTLS serves with a certificate, and asks clients for theirs.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	cert, key, pool := certificate(t)
	p := serveNexus(t, "--data", t.TempDir(), "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(p.URL, "https://") {
		t.Errorf("serves at %s", p.URL)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is
	transport.TLSClientConfig.RootCAs = pool
	c, err := api.Connect(p.URL, p.Token, api.Options{HTTP: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	if who, err := c.GetWhoamiWithResponse(t.Context()); err != nil || who.JSON200.Owner != "admin" {
		t.Errorf("%v", err)
	}
	p.stop(t)

	strict := serveNexus(t, "--data", t.TempDir(), "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", cert)
	if c, err = api.Connect(strict.URL, strict.Token, api.Options{HTTP: &http.Client{Transport: transport}, Retry: api.Retry{Attempts: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetWhoamiWithResponse(t.Context()); err == nil {
		t.Error("a client without a certificate was answered")
	}
	strict.stop(t)
}

// certificate makes a self-signed certificate for the loopback address.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nexus"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, content := range map[string][]byte{certFile: text, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return certFile, keyFile, pool
}

// TestServeRefuses starts a nexus that would be open to others.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"other machines without TLS": {[]string{"--listen", "0.0.0.0:0"}, "--tls-cert"},
		"half a certificate":         {[]string{"--tls-cert", "x"}, "go together"},
		"client CA without TLS":      {[]string{"--tls-client-ca", "x"}, "needs --tls-cert"},
		"no such certificate":        {[]string{"--tls-cert", "/nonexistent", "--tls-key", "/nonexistent"}, "load the certificate"},
		"profiles for everybody":     {[]string{"--listen", "127.0.0.1:0", "--debug", "0.0.0.0:0"}, "loopback"},
		"no such store":              {[]string{"--store", "mysql://x"}, "no store for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), program, append([]string{"serve", "--data", t.TempDir()}, test.args...)...)
			cmd.Env = append(os.Environ(), "REMIT_HOME="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), test.want) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
