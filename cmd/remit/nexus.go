package main

import (
	"errors"
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

// maxTokenFile bounds what is read as a token.
const maxTokenFile = 4 << 10

// token reads the credential. There is no flag for its text: command lines are
// visible to everybody on the machine.
func (f *nexusFlags) token(stdin io.Reader) (_ string, err error) {
	source := stdin
	switch f.tokenFile {
	case "":
		if token := strings.TrimSpace(os.Getenv(envToken)); token != "" {
			return token, nil
		}
		return "", usagef("no token: set $%s or give --token-file", envToken)
	case "-":
	default:
		file, err := os.Open(f.tokenFile)
		if err != nil {
			return "", usageError{err}
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		source = file
	}
	text, err := io.ReadAll(io.LimitReader(source, maxTokenFile))
	if err != nil {
		return "", usageError{err}
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", usagef("%s does not hold one token", f.tokenFile)
	}
	return token, nil
}
