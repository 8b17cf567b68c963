//test:plain-package It starts commands, and waits for each in one goroutine.

package keycommand

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		line string
		want []string // nil: refused
	}{
		{"pass show key", []string{"pass", "show", "key"}},
		{"  op\tread  'op://a b/c' ", []string{"op", "read", "op://a b/c"}},
		{`x "a 'b'" ''`, []string{"x", "a 'b'", ""}},
		{`x a'b'"c"`, []string{"x", "abc"}},
		{`x $HOME *.go a\b ; rm | y`, []string{"x", "$HOME", "*.go", `a\b`, ";", "rm", "|", "y"}},
		{"", nil}, {"   ", nil}, {"''", nil}, {"'x", nil}, {`x "y`, nil}, {"x\x00", nil}, {strings.Repeat("x ", maxWords+1), nil},
	}
	for _, test := range tests {
		got, err := Split(test.line)
		if (err == nil) != (test.want != nil) || !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, %v", test.line, got, err)
		}
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	const canary = "the-key-itself"
	dir := t.TempDir()
	tests := []struct {
		name, script, want string // "" is a failure
		patience           time.Duration
	}{
		{"prints", "echo " + canary, canary + "\n", time.Minute},
		{"has no input", "cat; echo " + canary, canary + "\n", time.Minute},
		{"fails", "echo " + canary + "; echo " + canary + " >&2; exit 3", "", time.Minute},
		{"prints too much", "while :; do echo " + canary + "; done", "", time.Minute},
		{"hangs", "echo " + canary + "; exec sleep 600", "", 300 * time.Millisecond},
		{"leaves something that holds its output", "sleep 5 & exec sleep 600", "", 300 * time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := run(t.Context(), []string{"sh", "-c", "cd " + dir + "; " + test.script}, test.patience)
			if string(got) != test.want || (err == nil) != (test.want != "") {
				t.Errorf("%q, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("the error shows the credential: %v", err)
			}
		})
	}
	if _, err := Run(t.Context(), nil); err == nil {
		t.Error("nothing is a program")
	}
	if _, err := Run(t.Context(), []string{filepath.Join(dir, "no-such")}); err == nil {
		t.Error("a program that is not there")
	}
	gone, cancel := context.WithCancelCause(t.Context())
	why := errors.New("changed my mind")
	cancel(why)
	if _, err := Run(gone, []string{"sleep", "600"}); !errors.Is(err, why) {
		t.Errorf("cancelled: %v", err)
	}
}

// A relative name is not looked up in the directory that the user happens to
// stand in: that may be the repository.
func TestNoProgramOfTheDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "keytool-of-the-repo"), []byte("#!/bin/sh\necho stolen\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("PATH", "."+string(os.PathListSeparator)+os.Getenv("PATH"))
	if got, err := Run(t.Context(), []string{"keytool-of-the-repo"}); err == nil {
		t.Errorf("%q", got)
	}
}

// Interpreters load modules, and tools load settings, from where they are
// started: that is not to be the repository that the user stands in.
func TestNotStartedInTheRepository(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "settings-of-the-repo"), []byte("stolen"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "own-tool"), []byte("#!/bin/sh\necho mine\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if got, err := Run(t.Context(), []string{"cat", "settings-of-the-repo"}); err == nil {
		t.Errorf("read from the current directory: %q", got)
	}
	if got, err := Run(t.Context(), []string{"sh", "-c", `echo "$PWD"`}); err != nil || strings.Contains(string(got), dir) {
		t.Errorf("%q, %v", got, err)
	}
	// A path is the user's word for one file.
	if got, err := Run(t.Context(), []string{"./own-tool"}); err != nil || string(got) != "mine\n" {
		t.Errorf("%q, %v", got, err)
	}
}
