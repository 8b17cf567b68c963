package provider

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/law/job"
	"remit/proof/reason"
)

func TestParseEngine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`fix=/opt/fix`:                         `fix ["/opt/fix"]`,
		`fix=/opt/fix --all 'a b' "c d" e\ f`:  `fix ["/opt/fix" "--all" "a b" "c d" "e f"]`,
		`fix= a  b	c `:                         `fix ["a" "b" "c"]`,
		`fix=sh -c 'x=$1; echo "$x" | tr a b'`: `fix ["sh" "-c" "x=$1; echo \"$x\" | tr a b"]`,
		`fix=a "\$x \"y\" \z" '' ""`:           `fix ["a" "$x \"y\" \\z" "" ""]`,
		`fix=a'b'"c"d=e`:                       `fix ["abcd=e"]`,
		`fix=`:                                 `fix []`,
		`fix`:                                  ``,
		`fix=a 'b`:                             ``,
		`fix=a "b`:                             ``,
		`fix=a b\`:                             ``,
		`fix=a $HOME`:                          ``,
		`fix=a "$HOME"`:                        ``,
		"fix=a `id`":                           ``,
		`fix=a; b`:                             ``,
		`fix=a | b`:                            ``,
		`fix=a > b`:                            ``,
		`fix=a *.go`:                           ``,
		`fix=~/fix`:                            ``,
	} {
		name, argv, err := ParseEngine(text)
		got := ""
		if err == nil {
			got = fmt.Sprintf("%s %q", name, argv)
		}
		if got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestEnginesOfAMachine: what cannot be an engine is reported when the daemon
// starts, not to the first job that asks for it.
func TestEnginesOfAMachine(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		engine string
		argv   []string
		ok     bool
	}{
		"of the system": {"go-fix_1.2", []string{"go", "fix", "./..."}, true},
		"by its path":   {"x", []string{"/bin/sh", text}, true},
		"no command":    {"x", nil, false},
		"empty word":    {"x", []string{""}, false},
		"no program":    {"x", []string{text}, false},
		"a directory":   {"x", []string{"/usr/bin/"}, false},
		"absent":        {"x", []string{"./absent"}, false},
		"no name":       {"", []string{"go"}, false},
		"a path":        {"../x", []string{"go"}, false},
		"with a space":  {"a b", []string{"go"}, false},
		"fake":          {"fake", []string{"go"}, false},
	} {
		if _, err := openEngines(map[string][]string{c.engine: c.argv}); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEngineVersionIsItsProgram: a requester who knows the digest of an engine
// gets that one or none.
func TestEngineVersionIsItsProgram(t *testing.T) {
	t.Parallel()
	d := daemon(t, "http://127.0.0.1:1", offering(t, ""))
	identity, err := d.engines["fixer"].Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	choice := job.EngineChoice{Name: "fixer", Version: identity.SHA256}
	if _, err := d.program(t.Context(), choice); err != nil {
		t.Error(err)
	}
	program := d.engines["fixer"].Argv[0]
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho other\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := d.program(t.Context(), choice); reason.CodeOf(err) != reason.EngineUnknown || strings.Contains(err.Error(), program) {
		t.Error(err)
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if _, err := d.program(t.Context(), job.EngineChoice{Name: "fixer"}); reason.CodeOf(err) != reason.ProviderUnavailable {
		t.Error(err)
	}
}
