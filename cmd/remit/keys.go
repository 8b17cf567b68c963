package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/proof/attest"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/session"
)

func (a *app) keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "keys", Short: "The key that signs your bundles, and the keys that you trust",
		Long: `Every bundle that is sealed here is signed: RECEIPT.json.sig is an SSHSIG over the
bytes of RECEIPT.json, in the namespace ` + attest.NamespaceReceipt + `, which ssh-keygen can check. The
key is an ed25519 key in OpenSSH form below $REMIT_HOME/keys, made at first use. It is
never shown to an engine; a run without a sandbox is not signed.

Whom an audit believes is yours to say: ` + "`remit keys trust`" + ` keeps a list, in the form of
ssh-keygen's allowed_signers, and ` + "`remit audit --allowed-signers`" + ` takes a file. Compare
fingerprints by another way than the one that the bundle came by. ` + "`remit keys revoke`" + `
keeps the keys that count no more. The same key signs the statements of
` + "`remit export --to attestation`" + `: who is trusted for receipts is trusted for them.`,
	}
	cmd.AddCommand(a.keysNewCommand(), a.keysShowCommand(), a.keysTrustCommand(), a.keysRevokeCommand(), a.keysAttestCommand())
	return cmd
}

// keyShown is the JSON document of remit keys new and show.
type keyShown struct {
	Fingerprint   string `json:"fingerprint"`
	PublicKey     string `json:"public_key"`
	AllowedSigner string `json:"allowed_signers"` // a line for the lists of others
	Path          string `json:"path"`            // of the private key
}

func (a *app) keysNewCommand() *cobra.Command {
	var replace bool
	var approval approvalKeyFlags
	cmd := &cobra.Command{
		Use: "new", Short: "Make the signing key of this machine", Args: cobra.NoArgs,
		Long: `New makes the key that signs what is sealed here. The first run makes one by itself.
With --replace the files of the old key stay beside the new one, under other names.
What the old key signed counts as foreign until its public half is trusted (remit keys
trust NAME --key FILE --for record).

With --approval it makes the key that signs approvals given at this machine. That key
never works unattended: it is kept under a passphrase, which is asked for at the
terminal, or it is one that your ssh-agent holds (--agent-key).`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if approval.stated() {
				if replace {
					return usagef("--replace is for the signing key: to exchange the approval key, move its files away first")
				}
				return a.newApprovalKey(cmd, approval)
			}
			ring := a.home.Keys()
			var key *attest.PrivateKey
			var err error
			if replace {
				key, err = ring.Replace(time.Now())
			} else {
				key, err = ring.New()
			}
			if errors.Is(err, fs.ErrExist) {
				e := reason.Errorf(reason.OutputExists, "there is a signing key already")
				e.File = ring.PrivatePath()
				return e.WithHint("see it with `remit keys show`, or give --replace")
			}
			if err != nil {
				return err
			}
			return a.printKey(cmd.OutOrStdout(), key.Public())
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "make a new key and keep the old one beside it")
	approval.add(cmd)
	return cmd
}

func (a *app) keysShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Print the public key, its fingerprint and a line for allowed_signers", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, err := a.home.Keys().Load()
			if errors.Is(err, fs.ErrNotExist) {
				e := reason.Errorf(reason.SignatureMissing, "this machine has no signing key yet")
				e.File = a.home.Keys().PrivatePath()
				return e.WithHint("the first run makes one, and so does `remit keys new`")
			}
			if err != nil {
				return err
			}
			return a.printKey(cmd.OutOrStdout(), key.Public())
		},
	}
}

func (a *app) printKey(w io.Writer, key attest.PublicKey) error {
	line, err := attest.Line(signerName(), key)
	if err != nil {
		return err
	}
	shown := keyShown{Fingerprint: key.Fingerprint(), PublicKey: key.String(), AllowedSigner: line, Path: a.home.Keys().PrivatePath()}
	if a.json {
		return printJSON(w, shown)
	}
	_, err = fmt.Fprintf(w, "fingerprint      %s\npublic key       %s\nallowed_signers  %s\nkept in          %s\n",
		shown.Fingerprint, shown.PublicKey, plain(shown.AllowedSigner), plain(shown.Path))
	return err
}

// signerName is what the line for others calls this user: their login and the
// machine, as far as both are plain words. The reader of the line may change it.
func signerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	word := func(text, otherwise string) string {
		text = strings.Map(func(c rune) rune {
			if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c) {
				return c
			}
			return -1
		}, text)
		if text == "" || len(text) > 90 {
			return otherwise
		}
		return text
	}
	return word(os.Getenv("USER"), "user") + "@" + word(host, "localhost")
}

// keyTrusted is the JSON document of remit keys trust.
type keyTrusted struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
	Added       bool   `json:"added"` // false: it was trusted before, under Name
	Path        string `json:"path"`
}

func (a *app) keysTrustCommand() *cobra.Command {
	var file, fingerprint string
	var purposes []string
	cmd := &cobra.Command{
		Use: "trust NAME (--key FILE | --fingerprint SHA256:… BUNDLE)", Short: "Believe the signatures of a key", Args: cobra.RangeArgs(1, 2),
		Long: `Trust adds a key to your own list, $REMIT_HOME/keys/allowed_signers, under a name of
your choice: from then on audits say "signed by NAME". --key takes a file with the
public key. --fingerprint takes the key out of a signed bundle, and only if it has the
fingerprint that you were given in another way than with the bundle: the bundle itself
is no reason to trust its key.

A key is trusted for receipts unless --for says otherwise: record for admissions,
decisions and proofs, approval for approvals.`,
		Example: `  remit keys trust alice@example.com --key alice.pub
  remit keys trust build-7 --fingerprint \
    SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU bundle.zip`,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := a.chosenKey(cmd, file, fingerprint, args[1:])
			if err != nil {
				return err
			}
			return a.trustKey(cmd.OutOrStdout(), args[0], key, purposes)
		},
	}
	cmd.Flags().StringVar(&file, "key", "", "file with the public key: ssh-ed25519 BASE64")
	cmd.Flags().StringVar(&fingerprint, "fingerprint", "", "fingerprint that the key of BUNDLE must have")
	cmd.Flags().StringArrayVar(&purposes, "for", nil,
		"what the key may sign (default receipt, repeatable): "+strings.Join(keyPurposes(), ", "))
	choose(cmd, "for", keyPurposes())
	return cmd
}

func (a *app) trustKey(w io.Writer, name string, key attest.PublicKey, purposes []string) error {
	var namespaces []string
	for _, p := range purposes {
		namespaces = append(namespaces, namespacePrefix+p)
	}
	if _, err := attest.Line(name, key); err != nil {
		return asUsage(err)
	}
	ring := a.home.Keys()
	before, err := ring.Trust(name, key, namespaces...)
	if err != nil {
		return err
	}
	out := keyTrusted{Name: name, Fingerprint: key.Fingerprint(), Added: before == "", Path: ring.SignersPath()}
	if before != "" {
		out.Name = before
	}
	if a.json {
		return printJSON(w, out)
	}
	text := "%s is trusted as %s (%s)\n"
	if !out.Added {
		text = "%s is trusted already, as %s (%s)\n"
	}
	_, err = fmt.Fprintf(w, text, out.Fingerprint, plain(out.Name), plain(out.Path))
	return err
}

// chosenKey is the key of --key, or that of the bundle with --fingerprint.
func (a *app) chosenKey(cmd *cobra.Command, file, fingerprint string, bundles []string) (attest.PublicKey, error) {
	switch {
	case file != "" && fingerprint == "" && len(bundles) == 0:
		return keyFile(file)
	case file == "" && fingerprint != "" && len(bundles) == 1:
		return a.keyOfBundle(cmd, bundles[0], fingerprint)
	}
	return attest.PublicKey{}, usagef("give either --key FILE, or --fingerprint SHA256:… and the bundle that has the key")
}

// keyFile reads a public key.
func keyFile(name string) (attest.PublicKey, error) {
	text, err := readFlagFile(name, maxTokenFile)
	if err != nil {
		return attest.PublicKey{}, err
	}
	key, err := attest.ParsePublicKey(text)
	if err != nil {
		return key, usagef("--key %s: %w", name, err)
	}
	return key, nil
}

// keyOfBundle is the key that has signed a bundle whose audit passes, if it has
// the fingerprint.
func (a *app) keyOfBundle(cmd *cobra.Command, name, fingerprint string) (attest.PublicKey, error) {
	path := a.auditPath(cmd.Context(), name)
	files, closeFiles, err := auditedFiles(cmd.Context(), path)
	if err != nil {
		return attest.PublicKey{}, err
	}
	defer closeFiles()
	receipt, err := fs.ReadFile(files, evidence.ReceiptFile)
	if err != nil {
		return attest.PublicKey{}, fmt.Errorf("reading the receipt: %w", err)
	}
	key, err := evidence.SignerOf(files, receipt)
	if errors.Is(err, fs.ErrNotExist) {
		e := reason.Errorf(reason.SignatureMissing, "the bundle is not signed")
		e.File = filepath.Base(path)
		return key, e.WithHint("ask its maker for the public key, and give --key FILE")
	}
	if err != nil {
		return key, err
	}
	if key.Fingerprint() != strings.TrimSpace(fingerprint) {
		e := reason.Errorf(reason.SignerUnknown, "the bundle is signed by %s, not by %s", key.Fingerprint(), fingerprint)
		e.File = filepath.Base(path)
		return attest.PublicKey{}, e.WithHint("nothing is trusted: ask the signer for the fingerprint of their key")
	}
	return key, nil
}

// saySigned prints who has signed the bundle of a session, or why it has no
// signature; the latter on stderr as well, where it is not overlooked.
func saySigned(w, warn io.Writer, s session.Session) {
	fingerprint, err := s.Signature()
	if err != nil {
		fmt.Fprintf(w, "  signed    no: %s\n", plainText(err.Error()))
		warnUnsigned(warn, err)
		return
	}
	fmt.Fprintf(w, "  signed    %s\n", fingerprint)
}

func warnUnsigned(w io.Writer, err error) {
	printOne(w, fmt.Errorf("the bundle is sealed without a signature, so that it does not say who made it: %w", err))
}
