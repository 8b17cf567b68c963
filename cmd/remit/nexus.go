package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"remit/law/secret"
	"remit/nexus/api"
	"remit/nexus/embedded"
	"remit/nexus/requester"
	"remit/proof/reason"
)

// nexusFlags say which authority a command talks to, and as whom.
type nexusFlags struct {
	url, tokenFile string
	plaintext      bool
	tls            tlsFlags
	once           bool   // ask once, and do not wait for a nexus that is not there
	sent           string // the token, once there is a client
}

// credentials are what evidence is searched for, as whatever the environment holds:
// the token may stand in a file.
func (f *nexusFlags) credentials() []secret.Value {
	if f.sent == "" {
		return nil
	}
	return []secret.Value{{Name: envToken, Value: f.sent}}
}

// tlsFlags name the files of a nexus with TLS of its own.
type tlsFlags struct{ files api.TLSFiles }

// Environment of commands that talk to the authority.
const (
	envNexus = "REMIT_NEXUS"
	envToken = "REMIT_TOKEN"
	envTFile = "REMIT_TOKEN_FILE"
	envCA    = "REMIT_TLS_CA"
	envCert  = "REMIT_TLS_CERT"
	envKey   = "REMIT_TLS_KEY"
)

func (f *tlsFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.files.CA, "tls-ca", "", "PEM file of the authority that the certificate of the nexus is from (default $"+envCA+
		", else those of the system)")
	flags.StringVar(&f.files.Cert, "tls-cert", "", "PEM file with a certificate of this client, for a nexus that demands one (default $"+envCert+")")
	flags.StringVar(&f.files.Key, "tls-key", "", "PEM file with its key (default $"+envKey+")")
}

// named are the files that flags or variables name.
func (f *tlsFlags) named() api.TLSFiles {
	return api.TLSFiles{CA: cmp.Or(f.files.CA, os.Getenv(envCA)), Cert: cmp.Or(f.files.Cert, os.Getenv(envCert)),
		Key: cmp.Or(f.files.Key, os.Getenv(envKey))}
}

func (f *nexusFlags) add(cmd *cobra.Command) { f.addOr(cmd, defaultNexus) }

// addOr says what is used when no nexus is named.
func (f *nexusFlags) addOr(cmd *cobra.Command, otherwise string) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "nexus", "", "URL of the nexus (default $"+envNexus+", else "+otherwise+")")
	flags.StringVar(&f.tokenFile, "token-file", "", "file that holds the token, - is stdin (default $"+envToken+
		", else the file $"+envTFile+")")
	flags.BoolVar(&f.plaintext, "plaintext", false, "send the token to another machine without TLS")
	f.tls.add(flags)
}

// defaultNexus is where remit serve listens.
const defaultNexus = "http://" + defaultListen

// named is the nexus that was named, "" when none was.
func (f *nexusFlags) named() string { return cmp.Or(f.url, os.Getenv(envNexus)) }

// address is the nexus that was named, or the one of remit serve on this machine.
func (f *nexusFlags) address() string { return cmp.Or(f.named(), defaultNexus) }

// connect makes connections to an authority.
type connect func(context.Context) (*requester.Connection, error)

// authority is the nexus that was named or, without one, that of this machine.
// There the operator decides about approvals, if one is given; at a nexus the
// token says who may.
func (a *app) authority(cmd *cobra.Command, f *nexusFlags, operator string) (connect, error) {
	url := f.named()
	if url == "" {
		return a.ownAuthority(operator), nil
	}
	client, err := f.client(cmd)
	if err != nil {
		return nil, err
	}
	conn := &requester.Connection{Client: client, Close: func() error { return nil }}
	return func(context.Context) (*requester.Connection, error) { return conn, nil }, nil
}

// ownAuthority is the one that is a part of this process.
func (a *app) ownAuthority(operator string) connect {
	return (&embedded.Machine{Dir: a.home.AuthorityDir(), Version: version, Operator: operator}).Connect
}

// authorityOf is the one that a session began with, unless the flags name
// another way to it.
func (a *app) authorityOf(cmd *cobra.Command, f *nexusFlags, session string) (*requester.Requester, error) {
	local, err := a.home.LoadLocal(session)
	if err != nil {
		return nil, err
	}
	to := a.ownAuthority("")
	if f.url = cmp.Or(f.url, local.Nexus); f.url != "" {
		if to, err = a.authority(cmd, f, ""); err != nil {
			return nil, err
		}
	}
	return requester.New(to), nil
}

// client connects as the flags say.
func (f *nexusFlags) client(cmd *cobra.Command) (*api.Client, error) {
	if err := checkAddress(f.address(), f.plaintext); err != nil {
		return nil, err
	}
	token, err := f.token(cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	f.sent = token
	opt := api.Options{AllowPlaintext: f.plaintext, TLS: f.tls.named(), UserAgent: "remit/" + version}
	if f.once {
		opt.Retry.Attempts = 1
	}
	return api.Connect(f.address(), token, opt)
}

// checkAddress refuses an address at which no nexus is asked, as a wrong command line.
func checkAddress(url string, plaintext bool) error {
	if _, err := api.ParseAddress(url, plaintext); err != nil {
		return asUsage(err)
	}
	return nil
}

// token is the credential. There is no flag for its text: command lines are
// visible to everybody on the machine.
func (f *nexusFlags) token(stdin io.Reader) (string, error) {
	if f.tokenFile != "" {
		return readToken(f.tokenFile, stdin)
	}
	if token := strings.TrimSpace(os.Getenv(envToken)); token != "" {
		return token, nil
	}
	if file := os.Getenv(envTFile); file != "" {
		return readToken(file, stdin)
	}
	return "", reason.Errorf(reason.Unauthenticated, "no token").WithHint("give --token-file FILE, or set $%s or $%s", envToken, envTFile)
}

// maxTokenFile bounds what is read as a token, in bytes.
const maxTokenFile = 4 << 10

// readToken reads a credential from a file, or from standard input for -.
func readToken(path string, stdin io.Reader) (string, error) {
	if err := refuseSecret("the name of a file that holds a token", path); err != nil {
		return "", err
	}
	source := stdin
	if path != "-" {
		file, err := os.Open(path) //nolint:gosec // the user names it, by a flag or in the environment
		if err != nil {
			return "", err
		}
		defer file.Close()
		source = file
	}
	text, err := io.ReadAll(io.LimitReader(source, maxTokenFile+1))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" || len(text) > maxTokenFile || strings.ContainsAny(token, " \t\r\n") {
		return "", usagef("%s does not hold one token", path)
	}
	return token, nil
}
