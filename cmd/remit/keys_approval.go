package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"remit/proof/attest"
	"remit/proof/reason"
	"remit/work/keyring"
)

const namespacePrefix = "remit-"

// keyPurposes are what a key can be trusted for: the namespaces without their
// prefix.
func keyPurposes() (out []string) {
	for _, n := range attest.Namespaces() {
		out = append(out, strings.TrimPrefix(n, namespacePrefix))
	}
	return out
}

// approvalKeyFlags make the key that signs approvals.
type approvalKeyFlags struct {
	approval       bool
	passphraseFile string
	agentKey       string
}

func (f *approvalKeyFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.approval, "approval", false, "make the key that signs approvals, under a passphrase")
	addPassphrase(cmd, &f.passphraseFile)
	fl.StringVar(&f.agentKey, "agent-key", "", "file with the public half of a key that your ssh-agent holds: let that one sign approvals")
}

func (f *approvalKeyFlags) stated() bool {
	return f.approval || f.passphraseFile != "" || f.agentKey != ""
}

func addPassphrase(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "passphrase-file", "",
		"file whose first line is the passphrase of the approval key (default: ask at the terminal)")
}

func (a *app) newApprovalKey(cmd *cobra.Command, f approvalKeyFlags) error {
	ring := a.home.Keys()
	var key attest.PublicKey
	var err error
	switch {
	case f.agentKey != "" && f.passphraseFile != "":
		return usagef("--agent-key names a key that has its own passphrase: leave --passphrase-file out")
	case f.agentKey != "":
		text, readErr := readFlagFile(f.agentKey, maxTokenFile)
		if readErr != nil {
			return readErr
		}
		if key, err = attest.ParsePublicKey(text); err != nil {
			return usagef("--agent-key %s: %w", f.agentKey, err)
		}
		err = ring.UseAgentKey(cmd.Context(), key)
	default:
		var words []byte
		if words, err = newPassphrase(cmd, f.passphraseFile); err != nil {
			return err
		}
		key, err = ring.NewApprovalKey(words)
	}
	if errors.Is(err, fs.ErrExist) {
		e := reason.Errorf(reason.OutputExists, "there is an approval key already")
		e.File = filepath.Join(ring.Dir, keyring.ApprovalPublicFile)
		return e.WithHint("to exchange it, move both of its files away first; what it signed then counts as foreign")
	}
	if err != nil {
		return err
	}
	line, err := attest.Line(signerName(), key, attest.NamespaceApproval)
	if err != nil {
		return err
	}
	shown := keyShown{Fingerprint: key.Fingerprint(), PublicKey: key.String(), AllowedSigner: line,
		Path: filepath.Join(ring.Dir, keyring.ApprovalPublicFile)}
	if a.json {
		return printJSON(cmd.OutOrStdout(), shown)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "approvals are signed with\nfingerprint      %s\npublic key       %s\nallowed_signers  %s\n",
		shown.Fingerprint, shown.PublicKey, plain(shown.AllowedSigner))
	return err
}

// maxPassphrase bounds a passphrase, in bytes.
const maxPassphrase = 1024

// newPassphrase is that of a new key: of the file, or typed twice.
func newPassphrase(cmd *cobra.Command, file string) ([]byte, error) {
	ask := passphraseOf(cmd, file)
	if ask == nil {
		return nil, usagef("there is no terminal to ask for a passphrase: give --passphrase-file, or --agent-key")
	}
	words, err := ask()
	if err != nil {
		return nil, err
	}
	if len(words) < keyring.MinPassphrase {
		return nil, usagef("a passphrase has at least %d bytes", keyring.MinPassphrase)
	}
	if file == "" {
		again, err := ask()
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(words, again) {
			return nil, usagef("the two passphrases differ: no key was made")
		}
	}
	return words, nil
}

// passphraseOf gives the passphrase of the approval key when it is needed: the
// first line of a file, or what a person types at the terminal; nil where there is
// neither.
func passphraseOf(cmd *cobra.Command, file string) func() ([]byte, error) {
	if file != "" {
		return func() ([]byte, error) {
			text, err := readFlagFile(file, maxPassphrase)
			if err != nil {
				return nil, err
			}
			words, _, _ := bytes.Cut(text, []byte("\n"))
			return bytes.TrimSuffix(words, []byte("\r")), nil
		}
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	return func() ([]byte, error) {
		if _, err := io.WriteString(cmd.ErrOrStderr(), "passphrase of the approval key: "); err != nil {
			return nil, err
		}
		words, err := term.ReadPassword(int(in.Fd()))
		_, _ = fmt.Fprintln(cmd.ErrOrStderr()) // the terminal did not show the line end
		return words, err
	}
}
