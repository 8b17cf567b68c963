package prove

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"remit/law/admission"
	"remit/law/ladder"
	"remit/proof/attest"
	"remit/proof/canon"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/keyring"
)

// recordsDir is where the records of the ladder are, relative to REMIT_HOME.
const recordsDir = "ladder"

// bundlesDir is where a key's sealed sessions are, in its directory.
const bundlesDir = "bundles"

const (
	keyDigits = 16      // of a key's digest in the name of its directory
	maxKeys   = 1024    // directories of one engine that are read
	maxProof  = 4 << 20 // bytes of a proof, of an attachment, of a signature
)

var keyName = form.Lazy(`^[0-9a-f]{16}$`)

// StoredProof is a proof as it lies on disk.
type StoredProof struct {
	ladder.Recorded
	Dir       string // of its key
	Signature []byte // SSHSIG in its armour, nil for none
	text      []byte
}

// Dir is the directory of a key's proofs.
func Dir(home string, key ladder.Key) (string, error) {
	name, err := dirName(key)
	return filepath.Join(home, recordsDir, key.Engine, name), err
}

func dirName(key ladder.Key) (string, error) {
	digest, err := key.Digest()
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(digest, "sha256:")[:keyDigits], nil
}

// Load reads every proof of an engine that lies below a home, of whatever key.
// Nothing kept is no error, and a proof that counts for nothing is none either:
// it is returned with its fault. Each proof was signed when it was made, and one
// without a signature that counts is none, see [keyring.VerifyRecord]. signed asks
// the same of the records that admit targets.
func Load(home, engine string, signed bool) ([]StoredProof, error) {
	if home == "" { // else what lies in the current directory would count
		return nil, nil
	}
	top := filepath.Join(home, recordsDir, engine)
	entries, err := os.ReadDir(top)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(engine, err)
	}
	var out []StoredProof
	keys := 0
	for _, e := range entries {
		if !e.IsDir() || !keyName().MatchString(e.Name()) {
			continue
		}
		if keys++; keys > maxKeys {
			return nil, unreadable(engine, fmt.Errorf("%s has more than %d directories", top, maxKeys))
		}
		for stage := 1; stage <= len(ladder.Stages()); stage++ {
			p, err := load(filepath.Join(top, e.Name()), engine, e.Name(), stage)
			if err != nil {
				return nil, unreadable(engine, err)
			}
			if p == nil {
				continue
			}
			if p.Fault == "" {
				_, err := keyring.VerifyRecord(home, attest.NamespaceRecord, p.text, p.Signature)
				p.fail(err)
			}
			out = append(out, *p)
		}
	}
	return out, ageByTargets(home, out, signed)
}

// ageByTargets marks the proofs as stale whose target is not admitted any more by the
// very decision that they name: path, allowed paths and risk may be others.
func ageByTargets(home string, proofs []StoredProof, signed bool) error {
	var records *admission.Records
	for i := range proofs {
		p := &proofs[i]
		if p.Proof == nil || p.Proof.TargetAdmissionID == nil {
			continue
		}
		if records == nil {
			var err error
			if records, err = (admission.Store{Home: home, Now: time.Now(), Verify: keyring.RecordVerifier(home, signed)}).Load(); err != nil {
				return err
			}
		}
		if !slices.ContainsFunc(records.Targets, func(r *admission.Target) bool {
			return r.ID == *p.Proof.TargetAdmissionID && r.Decision == admission.Admitted
		}) {
			p.Stale = "the target that the proof was made on is not admitted any more by the decision that it names"
		}
	}
	return nil
}

func unreadable(engine string, err error) error {
	return reason.Errorf(reason.HomeUnusable, "reading the proofs of engine %q: %w", engine, err)
}

// Recorded are the proofs for [ladder.Judge].
func Recorded(stored []StoredProof) []ladder.Recorded {
	out := make([]ladder.Recorded, 0, len(stored))
	for _, s := range stored {
		out = append(out, s.Recorded)
	}
	return out
}

// Standing is how far the kept proofs, and those that come with the program,
// bring a key.
func Standing(home string, key ladder.Key, now time.Time) (ladder.Standing, error) {
	proofs, err := Proofs(home, key.Engine, false)
	if err != nil {
		return ladder.Standing{}, err
	}
	return ladder.Judge(key, proofs, now), nil
}

// Proofs are all proofs of an engine for [ladder.Judge]: those that are kept, and
// those that come with the program, which need no signature.
func Proofs(home, engine string, signed bool) ([]ladder.Recorded, error) {
	stored, err := Load(home, engine, signed)
	if err != nil {
		return nil, err
	}
	return Counting(engine, stored), nil
}

// Counting are all proofs of an engine, as [Proofs] has them, where those that are
// kept were read before.
func Counting(engine string, stored []StoredProof) []ladder.Recorded {
	return append(Recorded(stored), BuiltIn(engine)...)
}

// load reads one proof, nil if it is not there.
func load(dir, engine, key string, stage int) (*StoredProof, error) {
	name := ladder.ProofFile(stage)
	text, err := readBounded(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	s := &StoredProof{Dir: dir, text: text, Recorded: ladder.Recorded{Path: path.Join(recordsDir, engine, key, name), Stage: stage, SHA256: canon.Digest(text)}}
	if err == nil {
		s.Proof, err = ladder.ParseProof(text)
	}
	if err == nil {
		err = s.inPlace(engine, key)
	}
	if err == nil {
		err = s.Proof.Overlong(time.Now())
	}
	if err == nil {
		err = checkKept(dir, s.Proof)
	}
	s.fail(err)
	if s.Signature, err = readBounded(filepath.Join(dir, name+keyring.SignatureSuffix)); !errors.Is(err, fs.ErrNotExist) {
		if err == nil && len(s.Signature) == 0 {
			err = errors.New("it is empty")
		}
		if err != nil {
			s.fail(reason.Errorf(reason.SignatureInvalid, "the signature of the proof cannot be read: %w", err))
		}
	}
	return s, nil
}

// fail notes the first fault of a record, with its code.
func (s *StoredProof) fail(err error) {
	if err != nil && s.Fault == "" {
		s.Fault, s.Code = err.Error(), cmp.Or(reason.CodeOf(err), reason.ProofInvalid)
	}
}

// inPlace says whether a proof lies where its key belongs.
func (s *StoredProof) inPlace(engine, key string) error {
	want, err := dirName(s.Proof.Key)
	switch {
	case err != nil:
		return err
	case s.Proof.Key.Engine != engine:
		return reason.Errorf(reason.ProofInvalid, "the proof is of engine %q", s.Proof.Key.Engine)
	case want != key:
		return reason.Errorf(reason.ProofInvalid, "the proof is of key %s and lies in the directory of %s", want, key)
	}
	return nil
}

// readBounded reads a regular file of a bounded size.
func readBounded(name string) ([]byte, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", filepath.Base(name))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxProof+1))
	if err == nil && len(b) > maxProof {
		err = fmt.Errorf("%s is larger than %d bytes", filepath.Base(name), maxProof)
	}
	return b, err
}

// The proofs of the engines that are built in come with the program: `make
// proofs` makes them, one directory for each engine and sandbox driver, and a
// test says when they have to be made again. The sessions that they name are not
// embedded.
//
//go:embed all:builtin
var embedded embed.FS

const builtInDir = "builtin"

// BuiltIn are the proofs of an engine that come with the program, none for one
// that is not built in. They are a part of the program, which a test holds to the
// rules that [ladder.ParseProof] has: it takes longer than a run may be kept waiting.
func BuiltIn(engine string) []ladder.Recorded {
	dirs, err := embedded.ReadDir(path.Join(builtInDir, engine))
	if err != nil {
		return nil // there are none
	}
	var out []ladder.Recorded
	for _, d := range dirs {
		for stage := 1; stage <= len(ladder.Stages()); stage++ {
			name := path.Join(builtInDir, engine, d.Name(), ladder.ProofFile(stage))
			text, err := embedded.ReadFile(name)
			if err != nil {
				continue
			}
			r := ladder.Recorded{Path: name, Stage: stage, SHA256: canon.Digest(text), BuiltIn: true, Proof: new(ladder.Proof)}
			if err := json.Unmarshal(text, r.Proof); err != nil {
				r.Proof, r.Fault = nil, err.Error()
			}
			out = append(out, r)
		}
	}
	return out
}
