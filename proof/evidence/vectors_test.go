//go:build !race

package evidence_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/journal"
	"remit/proof/reason"
)

// vector is an invalid vector: a valid base, what is done to it, and what a
// verifier must then find. vectors/README.md defines the form.
type vector struct {
	base  string
	gate  string
	code  reason.Code
	line  int
	steps []vectorStep
}

type vectorStep struct{ op, arg string }

func parseVector(t testing.TB, path string) vector {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v vector
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("%s: %q is not key: value", path, line)
		}
		switch key {
		case "base":
			v.base = value
		case "gate":
			v.gate = value
		case "code":
			v.code = reason.Code(value)
		case "finding-line":
			v.line = number(t, value)
		case "python":
			if value != "not-checked" {
				t.Fatalf("%s: python: %s", path, value)
			}
		default:
			v.steps = append(v.steps, vectorStep{key, value})
		}
	}
	if _, known := reason.Lookup(v.code); !known || v.base == "" || len(v.steps) == 0 {
		t.Fatalf("%s: no base, no step or no registered code", path)
	}
	return v
}

func number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// TestAuditOfInvalidVectors: each defect is found, by the gate and under the
// code that the vector names, and no gate before it finds anything.
func TestAuditOfInvalidVectors(t *testing.T) {
	t.Parallel()
	for _, path := range vectorFiles(t, "evidence/invalid/*.txt") {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			v := parseVector(t, path)
			w := &workshop{TB: t, files: readTree(t, filepath.Join(vectorsDir, "evidence", v.base))}
			for _, s := range v.steps {
				w.step(s)
			}
			dir := t.TempDir()
			for name, text := range w.files {
				at := filepath.Join(dir, filepath.FromSlash(name))
				w.must(os.MkdirAll(filepath.Dir(at), 0o700))
				w.must(os.WriteFile(at, text, 0o600))
			}
			rep := audit(t, dir)
			if rep.Status == bundle.Pass {
				t.Error("the audit passes")
			}
			for _, g := range rep.Gates {
				if g.Name == v.gate {
					if want := bundle.Status(reason.StatusOf(v.code)); g.Status != want {
						t.Errorf("gate %s says %s, want %s", g.Name, g.Status, want)
					}
					if !slices.ContainsFunc(g.Findings, func(f reason.Finding) bool { return f.Code == v.code && (v.line == 0 || f.Line == v.line) }) {
						t.Errorf("gate %s does not find %s (line %d):%s", v.gate, v.code, v.line, findingsOf(rep))
					}
					return
				}
				if g.Status != bundle.Pass {
					t.Errorf("the vector has more than its one defect, gate %s sees it:%s", g.Name, findingsOf(rep))
				}
			}
			t.Errorf("there is no gate %q", v.gate)
		})
	}
}

// TestJournalVectors: package journal reads the valid ones, computes their
// head, and refuses the others for the reason that they name.
func TestJournalVectors(t *testing.T) {
	t.Parallel()
	for _, path := range vectorFiles(t, "journal/valid/*.jsonl") {
		log, err := journal.ReadFile(path)
		if err != nil || log.TornBytes > 0 {
			t.Errorf("%s: %v, %d bytes torn", path, err, log.TornBytes)
			continue
		}
		head, err := journal.HeadOf(log.Entries)
		if err != nil {
			t.Fatal(err)
		}
		text, err := canon.Marshal(head)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(path, ".jsonl") + ".head.json"
		text = append(text, '\n')
		if *update {
			if err := os.WriteFile(name, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(name); err != nil || !bytes.Equal(want, text) {
			t.Errorf("%s is not the head %s (%v)", name, text, err)
		}
	}
	for _, path := range vectorFiles(t, "journal/invalid/*.txt") {
		v := parseVector(t, path)
		base := filepath.Join(vectorsDir, "journal", v.base)
		text, err := os.ReadFile(base)
		if err != nil {
			t.Fatal(err)
		}
		w := &workshop{TB: t, files: map[string][]byte{v.base: text}, file: v.base}
		for _, s := range v.steps {
			w.step(s)
		}
		log, err := journal.Read(bytes.NewReader(w.files[v.base]))
		code, line := reason.CodeOf(err), 0
		if e, ok := errors.AsType[*reason.Error](err); ok {
			line = e.Line
		}
		if err == nil && log.TornBytes > 0 {
			code, line = reason.JournalTorn, len(log.Entries)+1
		}
		if code != v.code || line != v.line {
			t.Errorf("%s: %s in line %d (%v), want %s in line %d", path, code, line, err, v.code, v.line)
		}
	}
}

// TestPythonVerifier: the second verifier, which shares no code with this one,
// judges every vector alike, and accepts what bundle.WriteZip writes.
func TestPythonVerifier(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("python3 is not installed: nothing compares the two verifiers")
		}
		t.Skip("PYTHON3 IS NOT INSTALLED: the second verifier was not run")
	}
	verifier := filepath.Join(vectorsDir, "verify.py")
	run := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), python, append([]string{"-I", "-B", verifier}, args...)...).CombinedOutput()
		return string(out), err
	}
	if out, err := run("--self-test", vectorsDir); err != nil {
		t.Errorf("self-test: %v\n%s", err, out)
	} else if !strings.Contains(out, "passed, 0 failed") {
		t.Errorf("self-test prints %q", out)
	}
	path := zipped(t, filepath.Join(validDir, "approved"))
	if out, err := run(path); err != nil {
		t.Errorf("a zip of WriteZip: %v\n%s", err, out)
	}
	intact, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"bytes before": append([]byte("x"), intact...),
		"bytes after":  append(bytes.Clone(intact), 'x'),
		"cut":          intact[:len(intact)-30],
		"one bit":      flipped(intact, len(intact)/2),
		"empty":        nil,
	} {
		bad := filepath.Join(t.TempDir(), "bad.zip")
		if err := os.WriteFile(bad, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := run(bad); err == nil {
			t.Errorf("%s: the second verifier accepts it:\n%s", name, out)
		}
		if rep := audit(t, bad); rep.Status == bundle.Pass {
			t.Errorf("%s: the audit accepts it", name)
		}
	}
}

func flipped(text []byte, at int) []byte {
	out := bytes.Clone(text)
	out[at] ^= 1
	return out
}
