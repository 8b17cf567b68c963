package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"remit/law/admission"
)

// Every decision of writers at the same time, in this process and in others,
// is in the history, and a reader never sees half a record.
func TestConcurrentAdmissions(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	const writers, each, processes = 8, 3, 4
	decide := func(text string) error {
		_, err := decideModel(home, admission.ModelDecision{Provider: "p", Model: "m",
			Ruling: admission.Ruling{Decision: admission.Admitted, By: "test", At: "2026-02-03T04:05:06.007Z", Reason: text}})
		return err
	}
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			for n := range each {
				if err := decide(fmt.Sprintf("%d.%d", w, n)); err != nil {
					t.Error(err)
				}
				if _, err := (admission.Store{Home: home}).Model("p", "m"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range processes {
		wait.Go(func() {
			cmd := exec.Command(program(), "admit", "model", "--provider", "p", "--model", "m", "--decision", "rejected", "--reason", fmt.Sprintf("process.%d", n))
			cmd.Env = append(os.Environ(), "REMIT_HOME="+home)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	wait.Wait()
	rec, err := admission.Store{Home: home}.Model("p", "m")
	if err != nil || rec == nil {
		t.Fatal(err)
	}
	reasons := map[string]bool{rec.Reason: true}
	for _, d := range rec.History {
		reasons[d.Reason] = true
	}
	if want := writers*each + processes; rec.Revision != want || len(reasons) != want {
		t.Errorf("revision %d, %d different decisions; want %d", rec.Revision, len(reasons), want)
	}
	left, err := filepath.Glob(filepath.Join(home, admission.Dir, "model", ".new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// A decision that cannot be written leaves the one before it.
func TestAdmissionIsReplacedAsAWhole(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	d := admission.SourceDecision{Engine: "codex", Version: "1.2.3", SHA256: "sha256:" + strings.Repeat("0", 64),
		Ruling: admission.Ruling{Decision: admission.Admitted, By: "test", At: "2026-02-03T04:05:06.007Z", Reason: "first"}}
	if _, err := decideSource(home, d); err != nil {
		t.Fatal(err)
	}
	d.Reason = "moved"
	d.Version = "latest"
	if _, err := decideSource(home, d); err == nil {
		t.Error("a moving version is admitted")
	}
	rec, err := admission.Store{Home: home}.Source("codex")
	if err != nil || rec.Reason != "first" || rec.Revision != 1 {
		t.Errorf("got %+v, %v", rec, err)
	}
	info, err := os.Stat(filepath.Join(home, filepath.FromSlash(admission.SourceFile("codex"))))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info, err)
	}
}
