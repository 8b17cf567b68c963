//test:both-package Reading computes in one goroutine; a writer has several callers.

package journal_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/proof/canon"
	"remit/proof/journal"
	"remit/proof/reason"
)

var start = time.Date(2026, 2, 1, 12, 30, 0, 987_654_321, time.UTC)

// create makes an empty journal that is closed when the test ends.
func create(t testing.TB) (*journal.Writer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	w, err := journal.Create(path, "20260201T123000Z-demo-0a1b2c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w, path
}

// steps is a small run with every status and awkward values.
func steps() []journal.Step {
	return []journal.Step{
		{StepID: "run", Name: "run.started", Status: journal.Started, StartedAt: start, Inputs: map[string]any{"run_id": canon.Digest(nil), "n": 1}},
		{StepID: "verify 1", Name: "verify", Status: journal.Started, StartedAt: start.Add(time.Second)},
		{StepID: "verify 1", Name: "verify", Status: journal.Completed, StartedAt: start.Add(time.Second), CompletedAt: start.Add(time.Minute),
			Outputs: struct {
				Confidence canon.Hundredths `json:"final_confidence"`
				Text       string           `json:"text"`
			}{50, "é \u2028\n\"<&>"}},
		{StepID: "tool", Name: "tool.called", Status: journal.Denied, StartedAt: start, CompletedAt: start, Inputs: json.RawMessage(`{"b": [1], "a": {}}`)},
		{StepID: "push", Name: "forge", Status: journal.Skipped, StartedAt: start},
		{StepID: `"\`, Name: "~", Status: journal.Failed, StartedAt: start, CompletedAt: start.Add(time.Millisecond), Outputs: map[string]string(nil)},
	}
}

func fill(t testing.TB, w *journal.Writer) []journal.Entry {
	t.Helper()
	for _, s := range steps() {
		if _, err := w.Append(s); err != nil {
			t.Fatal(err)
		}
	}
	return w.Entries()
}

// content writes the small run and returns the bytes of its file.
func content(t testing.TB) []byte {
	t.Helper()
	w, path := create(t)
	fill(t, w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wantCode(t *testing.T, err error, code reason.Code, line int, text string) {
	t.Helper()
	e, ok := errors.AsType[*reason.Error](err)
	if !ok || e.Code != code || e.Line != line || !strings.Contains(e.Error(), text) {
		t.Errorf("error is %v\nwant %s at line %d with %q", err, code, line, text)
	}
}

func TestAppendWritesTheFormat(t *testing.T) {
	t.Parallel()
	w, path := create(t)
	e, err := w.Append(journal.Step{StepID: "s1", Name: "contract.admitted", Status: journal.Completed,
		StartedAt: start.In(time.FixedZone("x", 3600)), CompletedAt: start.Add(1500 * time.Millisecond),
		Inputs: map[string]int{"b": 2, "a": 1}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const before = `{"completed_at":"2026-02-01T12:30:02.487Z",`
	const after = `"inputs":{"a":1,"b":2},"name":"contract.admitted","outputs":{},"prev_hash":null,"seq":0,` +
		`"session_id":"20260201T123000Z-demo-0a1b2c","started_at":"2026-02-01T12:30:00.987Z","status":"completed","step_id":"s1","v":1}`
	sum := sha256.Sum256([]byte(before + after))
	want := before + `"entry_hash":"sha256:` + hex.EncodeToString(sum[:]) + `",` + after + "\n"
	if string(got) != want {
		t.Errorf("file is\n%swant\n%s", got, want)
	}
	if line, err := canon.Marshal(e); err != nil || string(line)+"\n" != want {
		t.Errorf("the entry itself encodes as %s, %v", line, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v; want 0600", info.Mode(), err)
	}
}

func TestReadGivesBackWhatWasAppended(t *testing.T) {
	t.Parallel()
	w, path := create(t)
	want := fill(t, w)
	log, err := journal.ReadFile(path) // while the writer is alive
	if err != nil || log.TornBytes != 0 || !reflect.DeepEqual(log.Entries, want) {
		t.Fatalf("ReadFile = %+v, %v\nwant %+v", log, err, want)
	}
	if got := string(want[3].Inputs); got != `{"a":{},"b":[1]}` {
		t.Errorf("inputs are %s", got)
	}
	if got := string(want[5].Outputs); got != `{}` {
		t.Errorf("nil map is %s", got)
	}
	if want[1].CompletedAt != nil || *want[2].CompletedAt != "2026-02-01T12:31:00.987Z" {
		t.Errorf("times are %v, %v", want[1].CompletedAt, *want[2].CompletedAt)
	}
}

func TestReadOfNothing(t *testing.T) {
	t.Parallel()
	log, err := journal.Read(strings.NewReader(""))
	if err != nil || len(log.Entries) != 0 || log.TornBytes != 0 {
		t.Errorf("Read = %+v, %v", log, err)
	}
	if _, err := journal.HeadOf(nil); reason.CodeOf(err) != reason.JournalSyntax {
		t.Errorf("HeadOf(nil) = %v", err)
	}
}

func TestAppendRefusesWithoutHarm(t *testing.T) {
	t.Parallel()
	good := steps()[2]
	deep := json.RawMessage(`{"a":` + strings.Repeat("[", canon.MaxDepth-1) + strings.Repeat("]", canon.MaxDepth-1) + `}`)
	tests := []struct {
		name   string
		change func(*journal.Step)
		code   reason.Code
		text   string
	}{
		{"no step id", func(s *journal.Step) { s.StepID = "" }, reason.JournalSyntax, "step_id"},
		{"line break in the step id", func(s *journal.Step) { s.StepID = "a\nb" }, reason.JournalSyntax, "step_id"},
		{"long step id", func(s *journal.Step) { s.StepID = strings.Repeat("a", journal.MaxName+1) }, reason.JournalSyntax, "step_id"},
		{"escape sequence in the name", func(s *journal.Step) { s.Name = "\x1b[2J" }, reason.JournalSyntax, "name"},
		{"invalid UTF-8 in the name", func(s *journal.Step) { s.Name = "\xff" }, reason.JournalSyntax, "name"},
		{"unknown status", func(s *journal.Step) { s.Status = "done" }, reason.JournalSyntax, "status"},
		{"no start", func(s *journal.Step) { s.StartedAt = time.Time{} }, reason.JournalSyntax, "start"},
		{"end before start", func(s *journal.Step) { s.CompletedAt = s.StartedAt.Add(-time.Second) }, reason.JournalSyntax, "before started_at"},
		{"year 10000", func(s *journal.Step) { s.CompletedAt = s.StartedAt.AddDate(8000, 0, 0); s.StartedAt = s.CompletedAt }, reason.JournalSyntax, "started_at"},
		{"inputs are a list", func(s *journal.Step) { s.Inputs = []int{1} }, reason.JournalSyntax, "inputs"},
		{"outputs are a string", func(s *journal.Step) { s.Outputs = "x" }, reason.JournalSyntax, "outputs"},
		{"inputs outside the hashed subset", func(s *journal.Step) { s.Inputs = map[string]float64{"x": 0.5} }, reason.NotCanonical, "decimal"},
		{"duplicate key", func(s *journal.Step) { s.Inputs = json.RawMessage(`{"a":1,"a":2}`) }, reason.NotCanonical, "duplicate"},
		{"invalid UTF-8", func(s *journal.Step) { s.Outputs = map[string]string{"a": "\xff"} }, reason.NotCanonical, "UTF-8"},
		{"as deep as an object may be, and one level more", func(s *journal.Step) { s.Inputs = deep }, reason.JournalSyntax, "nested"},
		{"longer than a line", func(s *journal.Step) { s.Inputs = map[string]string{"a": strings.Repeat("x", journal.MaxLine)} }, reason.JournalSyntax, "line has"},
	}
	w, path := create(t)
	for _, test := range tests {
		s := good
		test.change(&s)
		_, err := w.Append(s)
		if reason.CodeOf(err) != test.code || !strings.Contains(fmt.Sprint(err), test.text) {
			t.Errorf("%s: %v, want %s with %q", test.name, err, test.code, test.text)
		}
	}
	fill(t, w)
	log, err := journal.ReadFile(path)
	if err != nil || len(log.Entries) != len(steps()) {
		t.Errorf("after the refusals: %v, %v", log, err)
	}
}

// A wall clock that is set back during a step must not stop the run.
func TestCompletedAtFollowsTheMonotonicClock(t *testing.T) {
	t.Parallel()
	w, _ := create(t)
	began := time.Now()
	ended := began.Add(2 * time.Second)
	e, err := w.Append(journal.Step{StepID: "s", Name: "s", Status: journal.Completed, StartedAt: began, CompletedAt: ended})
	if err != nil || *e.CompletedAt != ended.UTC().Format(journal.TimeFormat) {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, id := range []string{"", "..", "-x", "a/b", "a b", "é", strings.Repeat("a", journal.MaxName+1)} {
		path := filepath.Join(dir, "bad-id")
		if _, err := journal.Create(path, id); reason.CodeOf(err) != reason.JournalSyntax {
			t.Errorf("session id %q: %v", id, err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("session id %q left a file", id)
		}
	}
	path := filepath.Join(dir, "exists")
	if err := os.WriteFile(path, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Create(path, "s"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("existing file: %v", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "target"), link); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Create(link, "s"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("dangling link: %v", err)
	}
}

func TestAppendFromManyGoroutines(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 40
	w, path := create(t)
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			for j := range each {
				if _, err := w.Append(journal.Step{StepID: fmt.Sprintf("%d.%d", i, j), Name: "n", Status: journal.Completed, StartedAt: start}); err != nil {
					t.Error(err)
				}
				if j%20 == 0 {
					if err := w.Sync(); err != nil {
						t.Error(err)
					}
				}
				if j%10 == 0 {
					w.Entries()
				}
			}
		})
	}
	group.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := journal.ReadFile(path)
	if err != nil || len(log.Entries) != writers*each {
		t.Fatalf("%v entries, %v", len(log.Entries), err)
	}
	if !reflect.DeepEqual(log.Entries, w.Entries()) {
		t.Error("memory and file differ")
	}
}

func TestClosedWriter(t *testing.T) {
	t.Parallel()
	w, path := create(t)
	fill(t, w)
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	if _, err := w.Append(steps()[0]); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}
	if err := w.Sync(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Sync after Close: %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("file changed after Close")
	}
}
