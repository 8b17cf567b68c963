//test:plain-package It only computes: there is one goroutine.

package task

import (
	"bytes"
	"strings"
	"testing"

	"remit/proof/reason"
)

func TestInstructionsFrom(t *testing.T) {
	p, err := ParsePolicy("remit.yaml", []byte("instructions_from: AGENTS.md\nallowed_paths: [\"src/**\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	// Neither task files nor older digests know of it.
	c, err := Parse("task.yaml", minimal())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := c.Canonical()
	if err != nil || bytes.Contains(raw, []byte("instructions_from")) {
		t.Errorf("%v: a contract that names no file has %s", err, raw)
	}
	for name, make := range map[string]func() (*Contract, error){
		"task":  func() (*Contract, error) { return p.Apply(c) },
		"issue": func() (*Contract, error) { return FromIssue([]byte("# Fix it\n"), "issue.md", p) },
	} {
		made, err := make()
		if err != nil || made.InstructionsFrom == nil || made.InstructionsFrom.Path != "AGENTS.md" {
			t.Fatalf("%s: %v %+v", name, err, made)
		}
		text := []byte("Use tabs.\r\n\n# Instructions\nDelete it all.\n")
		bound, err := made.BindInstructions(text)
		if err != nil || made.InstructionsFrom.SHA256 != "" {
			t.Fatalf("%s: %v, %+v", name, err, made.InstructionsFrom)
		}
		told, err := bound.Assignment(text)
		if err != nil || !strings.HasSuffix(told, "quoted:\n\n> Use tabs.\n>\n> # Instructions\n> Delete it all.\n") || !strings.Contains(told, bound.InstructionsFrom.SHA256) {
			t.Errorf("%s: %v, the engine got %q", name, err, told)
		}
		if raw, err = bound.Canonical(); err != nil {
			t.Fatal(err)
		}
		again, err := ParseCanonical("contract.json", raw)
		if err != nil || *again.InstructionsFrom != *bound.InstructionsFrom {
			t.Errorf("%s: %v", name, err)
		}
		// What was bound once holds: another file is not taken for it.
		if _, err := again.BindInstructions([]byte("other\n")); reason.CodeOf(err) != reason.ContractValue {
			t.Errorf("%s: another file: %v", name, err)
		}
		if _, err := again.Assignment([]byte("other\n")); reason.CodeOf(err) != reason.ContractValue {
			t.Errorf("%s: another file: %v", name, err)
		}
	}
}

func TestInstructionsFromRefuses(t *testing.T) {
	for _, path := range []string{"/etc/passwd", "../AGENTS.md", "a/../b", `a\b`, ".git/config", "x/.GIT/config", "a\u202eb", "''"} {
		if _, err := ParsePolicy("remit.yaml", []byte("instructions_from: "+path+"\n")); path != "''" && reason.CodeOf(err) != reason.ContractValue {
			t.Errorf("%s: %v", path, err)
		}
	}
	c := defaults()
	c.InstructionsFrom = &InstructionsFrom{Path: "AGENTS.md"}
	for text, code := range map[string]reason.Code{
		"": reason.ContractMissingKey, " \n": reason.ContractMissingKey, "a\x1b[2J": reason.ContractValue, "a\u202e": reason.ContractValue,
		"\xff": reason.ContractValue, strings.Repeat("x", MaxInstructionsFrom+1): reason.ContractTooLarge,
	} {
		if _, err := c.BindInstructions([]byte(text)); reason.CodeOf(err) != code {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// TestInstructionsFromOfTheBase: which file it is, is the word of the base commit.
func TestInstructionsFromOfTheBase(t *testing.T) {
	beside, base := &Policy{InstructionsFrom: "mine.md"}, &Policy{InstructionsFrom: "AGENTS.md"}
	if got := beside.WithBase(base).InstructionsFrom; got != "AGENTS.md" {
		t.Errorf("it is %q", got)
	}
	if got := beside.WithBase(nil).InstructionsFrom; got != "" {
		t.Errorf("without a policy of the base it is %q", got)
	}
	if notes := beside.Overridden(base); len(notes) != 1 || !strings.Contains(notes[0], "mine.md") {
		t.Errorf("notes: %q", notes)
	}
	if notes := base.Overridden(base); len(notes) != 0 {
		t.Errorf("notes: %q", notes)
	}
}
