package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"remit/law/admission"
	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/attest"
	"remit/proof/canon"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/keyring"
)

// grantSchema names the signed word of a person that one run may work.
const grantSchema = "remit.approval.grant.v1"

// grantDir is the directory of grants, below REMIT_HOME.
const grantDir = "approvals"

// signedGrant is what a person signs when they approve at this machine. All but
// the time and the sentence is held against the approval when it is used.
type signedGrant struct {
	Schema              string `json:"schema"`
	ApprovalID          string `json:"approval_id"`
	ContractSHA256      string `json:"contract_sha256"`
	RepoRef             string `json:"repo_ref"`
	BindingSHA256       string `json:"binding_sha256"` // "" for a contract alone
	ExpiresAt           string `json:"expires_at"`
	ApprovalCommandText string `json:"approval_command_text"`
	Actor               string `json:"actor"`
	SignedAt            string `json:"signed_at"`
}

var approvalID = form.Lazy(`^apr_[0-9a-f]{32}$`)

func grantFile(id string) (string, error) {
	if !approvalID().MatchString(id) {
		return "", reason.Errorf(reason.RequestInvalid, "%.64q is no id of an approval", id)
	}
	return path.Join(grantDir, id+".json"), nil
}

// signGrant signs an approval with the approval key of this machine and keeps the
// signed text. Without such a key nothing is signed, and signed says whether it was before.
func (a *app) signGrant(cmd *cobra.Command, found api.Approval, passphraseFile string) (signed bool, err error) {
	ring := a.home.Keys()
	if _, err := ring.ApprovalKey(); errors.Is(err, fs.ErrNotExist) {
		return a.granted(found.ApprovalID)
	} else if err != nil {
		return false, err
	}
	packet, err := a.packetOf(found)
	if err != nil {
		return false, err
	}
	bound, err := found.Binding.Work().Digest()
	if err != nil {
		return false, err
	}
	name, err := grantFile(found.ApprovalID)
	if err != nil {
		return false, err
	}
	text, err := canon.Marshal(signedGrant{Schema: grantSchema, ApprovalID: found.ApprovalID, ContractSHA256: found.ContractSha256, RepoRef: found.RepoRef,
		BindingSHA256: bound, ExpiresAt: found.ExpiresAt, ApprovalCommandText: packet.ApprovalCommandText, Actor: operator(),
		SignedAt: time.Now().UTC().Format(admission.TimeFormat)})
	if err != nil {
		return false, err
	}
	text = append(text, '\n')
	signature, err := ring.SignApproval(cmd.Context(), text, passphraseOf(cmd, passphraseFile))
	if err != nil {
		return false, err
	}
	if err := replaceFile(a.home.Dir, admission.SignatureFile(name), signature); err != nil {
		return false, err
	}
	return true, replaceFile(a.home.Dir, name, text)
}

// noApprovalKey is what to type where nothing can be signed.
const noApprovalKey = "this machine has no approval key: `remit keys new --approval` makes one"

// granted reports whether the signed text of an approval is kept.
func (a *app) granted(id string) (bool, error) {
	name, err := grantFile(id)
	if err != nil {
		return false, err
	}
	if _, err = os.Lstat(filepath.Join(a.home.Dir, filepath.FromSlash(name))); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// maxGrant bounds a grant's file, in bytes.
const maxGrant = 64 << 10

// checkGrant says why an approval of this machine does not count where signatures
// are asked for.
func (a *app) checkGrant(approval job.Approval, p job.Packet) error {
	name, err := grantFile(approval.ID)
	if err != nil {
		return err
	}
	text, err := readFlagFile(filepath.Join(a.home.Dir, filepath.FromSlash(name)), maxGrant)
	if errors.Is(err, os.ErrNotExist) {
		if _, err := a.home.Keys().ApprovalKey(); errors.Is(err, fs.ErrNotExist) {
			return reason.Errorf(reason.SignatureMissing, "it is not signed, and %s; after that", noApprovalKey)
		}
		return reason.Errorf(reason.SignatureMissing, "it is not signed")
	}
	if err != nil {
		return err
	}
	signature, err := readFlagFile(filepath.Join(a.home.Dir, filepath.FromSlash(admission.SignatureFile(name))), attest.MaxSignature)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := keyring.VerifyRecord(a.home.Dir, attest.NamespaceApproval, text, signature); err != nil {
		return err
	}
	bound, err := p.Binding.Digest()
	if err != nil {
		return err
	}
	var g signedGrant
	if len(text) == 0 || canon.Decode(text[:len(text)-1], &g) != nil || g.Schema != grantSchema {
		return reason.Errorf(reason.SignatureInvalid, "what is signed is no grant")
	}
	if g.ApprovalID != approval.ID || g.ContractSHA256 != p.ContractSHA256 || g.RepoRef != p.RepoRef || g.BindingSHA256 != bound ||
		g.ExpiresAt != approval.ExpiresAt {
		return reason.Errorf(reason.ApprovalOtherWork, "what is signed is an approval of something else")
	}
	return nil
}

// operator names the person at this terminal, as far as the system knows.
func operator() string {
	if u, err := user.Current(); err == nil {
		return "local-operator:" + u.Username
	}
	return fmt.Sprintf("local-operator:uid-%d", os.Getuid())
}
