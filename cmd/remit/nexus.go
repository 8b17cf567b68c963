package main

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"remit/nexus/api"
)

// nexusFlags say which authority a command talks to, and as whom.
type nexusFlags struct {
	url, tokenFile string
	plaintext      bool
}

// Environment of commands that talk to the authority.
const (
	envNexus = "REMIT_NEXUS"
	envToken = "REMIT_TOKEN"
)

func (f *nexusFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "nexus", "", "URL of the nexus (default $"+envNexus+", else http://127.0.0.1:7340)")
	flags.StringVar(&f.tokenFile, "token-file", "", "file that holds the token, - is stdin (default $"+envToken+")")
	flags.BoolVar(&f.plaintext, "plaintext", false, "send the token to another machine without TLS")
}

// client connects as the flags say.
func (f *nexusFlags) client(cmd *cobra.Command) (*api.ClientWithResponses, error) {
	url := f.url
	if url == "" {
		url = os.Getenv(envNexus)
	}
	if url == "" {
		url = "http://127.0.0.1:7340"
	}
	token, err := f.token(cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	return api.Connect(url, token, api.Options{AllowPlaintext: f.plaintext, UserAgent: "remit/" + version})
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
	return "", usagef("no token: set $%s or give --token-file", envToken)
}

// maxTokenFile bounds what is read as a token, in bytes.
const maxTokenFile = 4 << 10

// readToken reads a credential from a file, or from standard input for -.
func readToken(path string, stdin io.Reader) (string, error) {
	source := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", usageError{err}
		}
		defer file.Close()
		source = file
	}
	text, err := io.ReadAll(io.LimitReader(source, maxTokenFile+1))
	if err != nil {
		return "", usageError{err}
	}
	token := strings.TrimSpace(string(text))
	if token == "" || len(text) > maxTokenFile || strings.ContainsAny(token, " \t\r\n") {
		return "", usagef("%s does not hold one token", path)
	}
	return token, nil
}
