package evidence_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
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

// workshop is where the steps of a vector are carried out.
type workshop struct {
	testing.TB
	files map[string][]byte
	file  string // that the next steps change
	line  int    // to which replace is held, 0 for the whole file
}

func (w *workshop) step(s vectorStep) {
	w.Helper()
	text := w.files[w.file]
	switch s.op {
	case "file":
		if _, ok := w.files[s.arg]; !ok {
			w.Fatalf("there is no file %s", s.arg)
		}
		w.file, w.line = s.arg, 0
	case "line":
		w.line = number(w, s.arg)
	case "replace":
		w.replace(s.arg)
	case "flip":
		offset, mask, _ := strings.Cut(s.arg, " ")
		at := number(w, offset)
		if at < 0 {
			at += len(text)
		}
		text = bytes.Clone(text)
		text[at] ^= byte(number(w, mask))
		w.files[w.file] = text
	case "append":
		var more string
		if err := json.Unmarshal([]byte(s.arg), &more); err != nil {
			w.Fatal(err)
		}
		w.files[w.file] = append(bytes.Clone(text), more...)
	case "truncate":
		w.files[w.file] = text[:len(text)-number(w, s.arg)]
	case "delete-line", "repeat-line", "swap-lines":
		w.lines(s)
	case "delete-file":
		delete(w.files, s.arg)
	case "add-file":
		w.file, w.line = s.arg, 0
		w.files[s.arg] = nil
	case "resign":
		w.resign(s.arg)
	default:
		w.Fatalf("unknown step %q", s.op)
	}
}

func (w *workshop) replace(arg string) {
	w.Helper()
	before, after, ok := strings.Cut(arg, " → ")
	if !ok {
		w.Fatalf("replace %q has no arrow", arg)
	}
	lines := bytes.SplitAfter(w.files[w.file], []byte("\n"))
	scope := w.files[w.file]
	at := w.line
	if at < 0 {
		at += len(lines) // the text ends in LF, so the last part is empty
	}
	if at > 0 {
		scope = lines[at-1]
	}
	if n := bytes.Count(scope, []byte(before)); n != 1 {
		w.Fatalf("%s: %q occurs %d times, want once", w.file, before, n)
	}
	scope = bytes.Replace(scope, []byte(before), []byte(after), 1)
	if at > 0 {
		lines[at-1] = scope
		scope = bytes.Join(lines, nil)
	}
	w.files[w.file] = scope
}

func (w *workshop) lines(s vectorStep) {
	w.Helper()
	lines := bytes.SplitAfter(w.files[w.file], []byte("\n"))
	lines = lines[:len(lines)-1]
	first, second, _ := strings.Cut(s.arg, " ")
	at := number(w, first)
	if at < 0 {
		at += len(lines) + 1
	}
	at--
	switch s.op {
	case "delete-line":
		lines = slices.Delete(lines, at, at+1)
	case "repeat-line":
		lines = slices.Insert(lines, at, lines[at])
	case "swap-lines":
		other := number(w, second) - 1
		lines[at], lines[other] = lines[other], lines[at]
	}
	w.files[w.file] = bytes.Join(lines, nil)
}

// resign makes one kind of digest right again, so that only a deeper look can
// see what was changed.
func (w *workshop) resign(what string) {
	w.Helper()
	switch what {
	case "seq", "chain":
		w.resignJournal(what)
	case "receipt":
		receipt := w.object(w.files[evidence.ReceiptFile])
		log, err := journal.Read(bytes.NewReader(w.files[evidence.JournalFile]))
		w.must(err)
		head, err := journal.HeadOf(log.Entries)
		w.must(err)
		receipt["journal"] = head
		delete(receipt, "canonical_json_sha256")
		signature := receipt["signature"]
		delete(receipt, "signature")
		receipt["canonical_json_sha256"] = w.digest(receipt)
		receipt["signature"] = signature
		w.files[evidence.ReceiptFile] = w.document(receipt)
	case "report":
		report := w.object(w.files[evidence.ReportFile])
		digests := report["artifact_digests"].(map[string]any)
		for name := range digests {
			if text, ok := w.files[name]; ok {
				digests[name] = canon.Digest(text)
			}
		}
		digests[evidence.ReportFile] = ""
		digests[evidence.ReportFile] = w.digest(report)
		w.files[evidence.ReportFile] = w.document(report)
	case "manifest":
		delete(w.files, evidence.ManifestFile)
		var text strings.Builder
		for _, name := range slices.Sorted(maps.Keys(w.files)) {
			fmt.Fprintf(&text, "%s  %s\n", strings.TrimPrefix(canon.Digest(w.files[name]), "sha256:"), name)
		}
		w.files[evidence.ManifestFile] = []byte(text.String())
	default:
		w.Fatalf("unknown signature %q", what)
	}
}

func (w *workshop) resignJournal(what string) {
	w.Helper()
	name := w.file
	if _, session := w.files[evidence.JournalFile]; session {
		name = evidence.JournalFile
	}
	var out []byte
	var prev any
	for i, line := range bytes.Split(bytes.TrimSuffix(w.files[name], []byte("\n")), []byte("\n")) {
		e := w.object(line)
		if what == "seq" {
			e["seq"] = i
		} else {
			delete(e, "entry_hash")
			e["prev_hash"] = prev
			prev = w.digest(e)
			e["entry_hash"] = prev
		}
		out = append(out, w.document(e)...)
	}
	w.files[name] = out
}

func (w *workshop) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *workshop) object(text []byte) map[string]any {
	w.Helper()
	m := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	w.must(dec.Decode(&m))
	return m
}

func (w *workshop) digest(v any) string {
	w.Helper()
	d, err := canon.DigestOf(v)
	w.must(err)
	return d
}

func (w *workshop) document(v any) []byte {
	w.Helper()
	text, err := canon.Marshal(v)
	w.must(err)
	return append(text, '\n')
}

func vectorFiles(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(vectorsDir, filepath.FromSlash(pattern)))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors match %s (%v): the test would prove nothing", pattern, err)
	}
	return paths
}

// audit runs the whole audit over a session directory.
func audit(t testing.TB, path string) *bundle.Report {
	t.Helper()
	opt := bundle.Options{}
	for _, g := range evidence.Gates() {
		opt.Gates = append(opt.Gates, bundle.Gate(g))
	}
	rep, err := bundle.Audit(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// TestAuditOfValidVectors: a valid session passes as a directory and as a zip.
func TestAuditOfValidVectors(t *testing.T) {
	t.Parallel()
	for _, dir := range vectorFiles(t, "evidence/valid/*") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			if rep := audit(t, dir); rep.Status != bundle.Pass {
				t.Errorf("directory: %s", findingsOf(rep))
			}
			if rep := audit(t, zipped(t, dir)); rep.Status != bundle.Pass {
				t.Errorf("zip: %s", findingsOf(rep))
			}
		})
	}
}

func zipped(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bundle.zip")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := bundle.WriteZip(f, dir); err != nil {
		t.Fatal(err)
	}
	return path
}

func findingsOf(rep *bundle.Report) string {
	var out strings.Builder
	for _, g := range rep.Gates {
		fmt.Fprintf(&out, "\n  %s %s %s", g.Name, g.Status, g.Reason)
		for _, f := range g.Findings {
			fmt.Fprintf(&out, "\n    %s", f)
		}
	}
	return out.String()
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
		if e, ok := err.(*reason.Error); ok {
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
