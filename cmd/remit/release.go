package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"remit/proof/attest"
	"remit/proof/bundle"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/proof/release"
)

// What a provenance names a release by.
var (
	releaseVersion = form.Lazy(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$`)
	commitID       = form.Lazy(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)
)

func (a *app) keysAttestCommand() *cobra.Command {
	var version, commit, out string
	cmd := &cobra.Command{
		Use: "attest BINARY... --version V --commit ID", Short: "Sign where released binaries are from", Args: cobra.MinimumNArgs(1),
		Long: `Attest writes two files for each binary that Go has built: BINARY.intoto.jsonl, SLSA
provenance in an envelope that the key of this machine has signed, with the modules of
the binary and the version and commit that you name; and BINARY.cdx.json, its bill of
materials in CycloneDX. The same binary, key and words give the same files.
` + "`remit audit BINARY --allowed-signers F`" + ` checks both.`,
		Example: `  remit keys attest dist/remit_v1.2.3_linux_amd64 --version v1.2.3 --commit 1a2b…`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !releaseVersion().MatchString(version) {
				return usagef("--version %.60q: must be letters, digits, dots, dashes, plus and underscores, 128 at most", version)
			}
			if !commitID().MatchString(commit) {
				return usagef("--commit %.60q: must be the whole id of a commit, 40 or 64 digits of 0-9a-f", commit)
			}
			key, err := a.home.Keys().Key()
			if err != nil {
				return err
			}
			written := []string{}
			for _, path := range args {
				b, err := release.Read(path)
				if err != nil {
					return usagef("%w", err)
				}
				b.Version, b.Commit = version, commit
				envelope, err := b.Sign(key)
				if err != nil {
					return err
				}
				materials, err := b.Materials()
				if err != nil {
					return err
				}
				dir := filepath.Dir(path)
				if out != "" {
					dir = out
				}
				for _, f := range []struct {
					ext  string
					text []byte
				}{{extProvenance, envelope}, {extMaterials, materials}} {
					name := filepath.Join(dir, b.Name+f.ext)
					write := func(w io.Writer) error {
						_, err := w.Write(f.text)
						return err
					}
					if err := newFile(name, write); err != nil && (reason.CodeOf(err) != reason.OutputExists || !holds(name, write)) {
						return err
					}
					written = append(written, name)
				}
			}
			return a.present(cmd.OutOrStdout(), map[string][]string{"written": written}, func(w io.Writer) error {
				for _, name := range written {
					if _, err := fmt.Fprintln(w, name); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&version, "version", "", "the version of the release")
	fl.StringVar(&commit, "commit", "", "the commit that it was built from")
	fl.StringVar(&out, "out", "", "directory for the files (default: beside each binary)")
	_ = cmd.MarkFlagRequired("version")
	_ = cmd.MarkFlagRequired("commit")
	return cmd
}

// gateProvenance is the one gate of a released binary.
const gateProvenance = "provenance"

// The two files of a binary, beside it.
const (
	extProvenance = ".intoto.jsonl"
	extMaterials  = ".cdx.json"
	maxMaterials  = 1 << 24 // bytes
)

// isProgram reports whether path is a program of Linux or macOS, by its first bytes.
func isProgram(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [4]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && (string(magic[:]) == "\x7fELF" || string(magic[:]) == "\xcf\xfa\xed\xfe")
}

// auditBinary holds a released binary against its signed provenance, and the bill of
// materials beside it against both.
func (a *app) auditBinary(cmd *cobra.Command, f *auditFlags, path string) error {
	if f.provenance == "" {
		f.provenance = path + extProvenance
		if _, err := os.Stat(f.provenance); err != nil {
			return usagef("%s is a program, and %s is not beside it: download that file of its release too, or name it with --provenance", path,
				filepath.Base(f.provenance))
		}
	}
	trust, err := a.trust(f, path)
	if err != nil {
		return err
	}
	binary, err := release.Read(path)
	if err != nil {
		return usagef("--provenance is about a binary: %w", err)
	}
	text, err := readFlagFile(f.provenance, attest.MaxEnvelope)
	if err != nil {
		return err
	}
	gate := bundle.GateResult{Name: gateProvenance, Status: bundle.Pass}
	refuse := func(code reason.Code, detail string) {
		gate.Findings = append(gate.Findings, reason.Finding{Gate: gateProvenance, Code: code, Path: f.provenance, Detail: detail})
		gate.Status = worst(gate.Findings)
	}
	e, err := attest.ParseEnvelope(text)
	if err != nil {
		refuse(reason.SignatureInvalid, err.Error())
	} else if key, known := trust.Signers.Key(e.KeyID); !known {
		refuse(reason.SignatureUnchecked, "is signed by "+plain(e.KeyID)+", which is not in your allowed signers")
	} else if err := e.Verify(key); err != nil {
		refuse(reason.SignatureInvalid, err.Error())
	} else if trust.Revoked.Has(key) {
		refuse(reason.SignerRevoked, "is signed by "+key.Fingerprint()+", which you have revoked")
	} else if name, trusted := trust.Signers.Find(key, attest.NamespaceReceipt, time.Now()); !trusted {
		refuse(reason.SignerUnknown, "is signed by "+key.Fingerprint()+", which you do not trust for this")
	} else if binary, err = release.Check(e.Payload, binary); err != nil || e.PayloadType != attest.PayloadInToto {
		refuse(reason.StatementMismatch, release.ErrOther.Error())
	} else {
		materials, err := readFlagFile(path+extMaterials, maxMaterials)
		if want, wrong := binary.Materials(); wrong != nil {
			return wrong
		} else if err == nil && !bytes.Equal(materials, want) {
			f.provenance = path + extMaterials
			refuse(reason.StatementMismatch, "this bill of materials is not that of the binary")
		}
		gate.Reason = fmt.Sprintf("signed by %s: %s %s of commit %s, %d modules",
			name, binary.Version, binary.Target, binary.Commit, len(binary.Modules))
	}
	rep := &bundle.Report{Schema: bundle.ReportSchema, Path: path, Profile: gateProvenance,
		Entries: 1, Bytes: binary.Bytes, Commands: []bundle.Command{}}
	rep.Add(gate)
	return a.audited(cmd.OutOrStdout(), f, rep, nil)
}
