package harness

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/law/audit"
	"remit/law/job"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/work/sandbox"
	"remit/work/session"
)

// ended is a run that has ended, without a pass: its sandbox verifies nothing.
func ended(t *testing.T, change func(*Request)) (Request, session.Session) {
	t.Helper()
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "a\n"}), &scripted{files: map[string]string{"a.txt": "b\n"}}, talker{argv: []string{"tool"}})
	if change != nil {
		change(&req)
	}
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return req, out.Session
}

// signedBy audits a session and returns what the gate says of its signature.
func signedBy(t *testing.T, s session.Session) string {
	t.Helper()
	opt := bundle.Options{}
	opt.Gates, opt.Further = audit.Gates()
	rep, err := bundle.Audit(t.Context(), s.Dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Status != bundle.Pass {
		t.Fatalf("the audit ends as %s: %+v", rep.Status, rep.Gates)
	}
	for _, g := range rep.Gates {
		if g.Name == bundle.GateSignatures {
			return g.Reason
		}
	}
	return ""
}

// TestSealsAreSigned: every seal is signed with the key that the first one made,
// also the one after an outcome.
func TestSealsAreSigned(t *testing.T) {
	t.Parallel()
	req, s := ended(t, nil)
	key, err := req.Home.Keys().Load()
	if err != nil {
		t.Fatal(err)
	}
	want := key.Public().Fingerprint()
	first, err := os.ReadFile(filepath.Join(s.Dir, evidence.SignatureFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := signedBy(t, s); !strings.Contains(got, want) {
		t.Errorf("the gate says %q, want %s", got, want)
	}
	found, err := req.Home.Find(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := found.Decide(t.Context(), session.Rejected, "no", "tester", time.Now); err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(filepath.Join(s.Dir, evidence.SignatureFile))
	if err != nil || bytes.Equal(first, second) {
		t.Errorf("the signature is that of the first seal (%v)", err)
	}
	if got := signedBy(t, s); !strings.Contains(got, want) {
		t.Errorf("after the outcome the gate says %q, want %s", got, want)
	}
	if got, err := found.Signature(); err != nil || got != want {
		t.Errorf("%s (%v), want %s", got, err, want)
	}
}

// TestSealsWithoutSignature: what cannot be vouched for is sealed without a
// signature, complete, and says why; an old signature does not stay.
func TestSealsWithoutSignature(t *testing.T) {
	t.Parallel()
	t.Run("no sandbox", func(t *testing.T) {
		t.Parallel()
		req, s := ended(t, func(r *Request) { r.Sandbox, r.ExplicitNone = saysNone{r.Sandbox}, true })
		unsigned(t, s, "--sandbox none")
		if _, err := os.Stat(req.Home.Keys().Dir); err == nil {
			t.Error("a key was made while processes without a sandbox ran")
		}
	})
	t.Run("a key that others can read", func(t *testing.T) {
		t.Parallel()
		_, s := ended(t, func(r *Request) {
			if _, err := r.Home.Keys().Key(); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(r.Home.Keys().PrivatePath(), 0o644); err != nil {
				t.Fatal(err)
			}
		})
		unsigned(t, s, "gives rights to others")
	})
	t.Run("no place for a key", func(t *testing.T) {
		t.Parallel()
		_, s := ended(t, func(r *Request) {
			if err := os.WriteFile(r.Home.Keys().Dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		})
		unsigned(t, s, "cannot be used")
	})
	t.Run("from elsewhere", func(t *testing.T) {
		t.Parallel()
		req, s := ended(t, nil)
		for name, dir := range map[string]string{
			"a directory":                 filepath.Join(t.TempDir(), s.ID),
			"put among the sessions here": filepath.Join(req.Home.Sessions(), strings.Replace(s.ID, "change", "cHange", 1)),
		} {
			if err := os.CopyFS(dir, os.DirFS(s.Dir)); err != nil {
				t.Fatal(err)
			}
			found, err := req.Home.Find(dir)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := found.Decide(t.Context(), session.Rejected, "", "tester", time.Now); err != nil {
				t.Fatal(err)
			}
			t.Log(name)
			unsigned(t, found, "not made in this REMIT_HOME")
		}
	})
	t.Run("a key that is spoiled between two seals", func(t *testing.T) {
		t.Parallel()
		req, s := ended(t, nil)
		if err := os.WriteFile(req.Home.Keys().PrivatePath(), []byte("spoiled"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Decide(t.Context(), session.Rejected, "", "tester", time.Now); err != nil {
			t.Fatal(err)
		}
		unsigned(t, s, "not one OpenSSH private key")
	})
}

func unsigned(t *testing.T, s session.Session, why string) {
	t.Helper()
	if got := signedBy(t, s); got != evidence.Unsigned {
		t.Errorf("the gate says %q, want %q", got, evidence.Unsigned)
	}
	if _, err := s.Signature(); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("unsigned because of %v, want %q", err, why)
	}
}

// saysNone says of a sandbox that it is none.
type saysNone struct{ sandbox.Driver }

func (saysNone) Describe() sandbox.Description {
	return sandbox.Description{Driver: sandbox.DriverNone}
}

// TestAmend: an authority hears of each seal after the end of the run once, and
// of one that it missed when the run is resumed.
func TestAmend(t *testing.T) {
	t.Parallel()
	c := &clerk{}
	req, s := ended(t, func(r *Request) { r.Authority, r.Nexus = c, "http://nexus.invalid" })
	if len(c.amended) != 0 || !c.closed {
		t.Fatalf("amended %d times before anything was added (closed %t)", len(c.amended), c.closed)
	}
	if _, err := s.Decide(t.Context(), session.Rejected, "not what I asked for", "tester", time.Now); err != nil {
		t.Fatal(err)
	}
	c.amendErr = errors.New("not there")
	if err := req.Home.Amend(t.Context(), s, c); err == nil {
		t.Error("a failure is not reported")
	}
	c.amendErr = nil
	resume := func() *Outcome {
		t.Helper()
		out, err := Resume(t.Context(), Resumption{Home: req.Home, Session: s, Sandbox: req.Sandbox, Authority: c})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for range 2 {
		if out := resume(); out.NotConcluded != nil {
			t.Error(out.NotConcluded)
		}
	}
	if err := req.Home.Amend(t.Context(), s, c); err != nil {
		t.Error(err)
	}
	if len(c.amended) != 1 {
		t.Fatalf("amended %d times, want once", len(c.amended))
	}
	a := c.amended[0]
	var zip bytes.Buffer
	if err := a.Bundle(&zip); err != nil {
		t.Fatal(err)
	}
	if n, ok := job.BundleEntries(job.ResealedBundle(a.Entries)); !ok || n != a.Entries || a.Outcome != session.Rejected || a.Note != "not what I asked for" || !strings.HasPrefix(a.RunID, "run_") || zip.Len() == 0 {
		t.Errorf("%+v, %d bytes", a, zip.Len())
	}
}
