//go:build !race

package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"remit/proof/canon"
	"remit/proof/journal"
	"remit/proof/reason"
)

// forge is what an attacker does who holds the file and knows the format: it
// edits the lines as JSON and then makes all hashes fit again.
func forge(t *testing.T, file []byte, edit func(lines []map[string]any)) []byte {
	t.Helper()
	var lines []map[string]any
	for line := range bytes.Lines(file) {
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		var m map[string]any
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, m)
	}
	edit(lines)
	var out bytes.Buffer
	var prev any
	for _, m := range lines {
		_, kept := m["prev_hash"]
		if kept && m["prev_hash"] != "keep" {
			m["prev_hash"] = prev
		}
		delete(m, "entry_hash")
		hash, err := canon.DigestOf(m)
		if err != nil {
			t.Fatal(err)
		}
		m["entry_hash"], prev = hash, hash
		line, err := canon.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	return out.Bytes()
}

// Even with hashes that fit, an entry has to follow every other rule.
func TestReadRefusesForgedEntries(t *testing.T) {
	t.Parallel()
	set := func(line int, key string, value any) func([]map[string]any) {
		return func(lines []map[string]any) { lines[line][key] = value }
	}
	drop := func(line int, key string) func([]map[string]any) {
		return func(lines []map[string]any) { delete(lines[line], key) }
	}
	tests := []struct {
		name string
		edit func([]map[string]any)
		code reason.Code
		line int
		text string
	}{
		{"other version", set(1, "v", 2), reason.JournalSyntax, 2, "v is 2"},
		{"version as text", set(1, "v", "1"), reason.JournalSyntax, 2, "not an entry"},
		{"gap in seq", set(2, "seq", 3), reason.JournalChain, 3, "seq is 3, not 2"},
		{"first seq", set(0, "seq", 1), reason.JournalChain, 1, "seq is 1, not 0"},
		{"negative seq", set(0, "seq", -1), reason.JournalChain, 1, "seq"},
		{"other session", set(3, "session_id", "other"), reason.JournalChain, 4, "session_id"},
		{"empty session", set(0, "session_id", ""), reason.JournalSyntax, 1, "session_id"},
		{"session that climbs", set(0, "session_id", "../x"), reason.JournalSyntax, 1, "session_id"},
		{"empty step", set(0, "step_id", ""), reason.JournalSyntax, 1, "step_id"},
		{"control character in the name", set(0, "name", "a\x1b"), reason.JournalSyntax, 1, "name"},
		{"unknown status", set(4, "status", "Completed"), reason.JournalSyntax, 5, "status"},
		{"null status", set(4, "status", nil), reason.JournalSyntax, 5, ""},
		{"no milliseconds", set(1, "started_at", "2026-02-01T12:30:01Z"), reason.JournalSyntax, 2, "started_at"},
		{"microseconds", set(1, "started_at", "2026-02-01T12:30:01.000000Z"), reason.JournalSyntax, 2, "started_at"},
		{"comma in the time", set(1, "started_at", "2026-02-01T12:30:01,000Z"), reason.JournalSyntax, 2, "started_at"},
		{"offset instead of Z", set(1, "started_at", "2026-02-01T12:30:01.000+00:00"), reason.JournalSyntax, 2, "started_at"},
		{"no such day", set(1, "started_at", "2026-02-30T12:30:01.000Z"), reason.JournalSyntax, 2, "started_at"},
		{"completed_at is empty", set(1, "completed_at", ""), reason.JournalSyntax, 2, "completed_at"},
		{"completed before started", set(2, "completed_at", "2026-02-01T12:30:01.986Z"), reason.JournalSyntax, 3, "before started_at"},
		{"prev_hash in entry 0", set(0, "prev_hash", "keep"), reason.JournalChain, 1, "not null"},
		{"prev_hash of something else", set(2, "prev_hash", "keep"), reason.JournalChain, 3, "prev_hash"},
		{"inputs are a list", set(0, "inputs", []int{}), reason.JournalSyntax, 1, "inputs"},
		{"inputs are null", set(0, "inputs", nil), reason.JournalSyntax, 1, "inputs"},
		{"outputs are text", set(0, "outputs", "{}"), reason.JournalSyntax, 1, "outputs"},
		{"extra key", set(0, "note", 1), reason.JournalSyntax, 1, "note"},
		{"key in other case", set(0, "Seq", 0), reason.JournalSyntax, 1, "Seq"},
		{"no completed_at", drop(1, "completed_at"), reason.JournalSyntax, 2, "keys"},
		{"no prev_hash in entry 0", drop(0, "prev_hash"), reason.JournalSyntax, 1, "keys"},
		{"no inputs", drop(0, "inputs"), reason.JournalSyntax, 1, "keys"},
		{"no seq in entry 0", drop(0, "seq"), reason.JournalSyntax, 1, "keys"},
		{"no status", drop(5, "status"), reason.JournalSyntax, 6, "keys"},
	}
	file := content(t)
	if log, err := journal.Read(bytes.NewReader(forge(t, file, func([]map[string]any) {}))); err != nil || len(log.Entries) != len(steps()) {
		t.Fatalf("forging nothing: %v", err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := journal.Read(bytes.NewReader(forge(t, file, test.edit)))
			wantCode(t, err, test.code, test.line, test.text)
		})
	}
}

func TestReadRefusesEditedLines(t *testing.T) {
	t.Parallel()
	file := string(content(t))
	lines := strings.SplitAfter(strings.TrimSuffix(file, "\n"), "\n")
	n := len(lines)
	lines[n-1] += "\n"
	join := func(parts ...string) string { return strings.Join(parts, "") }
	tests := []struct {
		name, file string
		code       reason.Code
		line       int
	}{
		{"line removed", join(lines[0], lines[2], lines[3]), reason.JournalChain, 2},
		{"first line removed", join(lines[1:]...), reason.JournalChain, 1},
		{"lines swapped", join(lines[0], lines[2], lines[1]), reason.JournalChain, 2},
		{"line doubled", join(lines[0], lines[0]), reason.JournalChain, 2},
		{"value changed", strings.Replace(file, "12:31:00.987Z", "12:31:00.986Z", 1), reason.JournalChain, 3},
		{"hash changed", strings.Replace(file, `"entry_hash":"sha256:`, `"entry_hash":"sha512:`, 1), reason.JournalChain, 1},
		{"space added", strings.Replace(file, `"seq":1`, `"seq": 1`, 1), reason.JournalSyntax, 2},
		{"CR LF", strings.ReplaceAll(file, "\n", "\r\n"), reason.JournalSyntax, 1},
		{"byte order mark", "\ufeff" + file, reason.JournalSyntax, 1},
		{"empty line", lines[0] + "\n" + lines[1], reason.JournalSyntax, 2},
		{"empty last line", file + "\n", reason.JournalSyntax, n + 1},
		{"broken last line with LF", file[:len(file)-3] + "\n", reason.JournalSyntax, n},
		{"NUL bytes with LF", file + "\x00\x00\n", reason.JournalSyntax, n + 1},
		{"two values on a line", strings.Replace(file, "\n", "{}\n", 1), reason.JournalSyntax, 1},
		{"duplicate key", strings.Replace(file, `,"v":1}`, `,"v":1,"v":1}`, 1), reason.JournalSyntax, 1},
		{"array", "[]\n", reason.JournalSyntax, 1},
		{"null", "null\n", reason.JournalSyntax, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := journal.Read(strings.NewReader(test.file))
			wantCode(t, err, test.code, test.line, "")
		})
	}
}

// Whatever single byte is changed, to whatever value: Read sees it.
func TestReadDetectsEveryFlippedByte(t *testing.T) {
	t.Parallel()
	file := content(t)
	first := file[:bytes.IndexByte(file, '\n')+1]
	bits := []byte{0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80}
	var all []byte
	for i := range 255 {
		all = append(all, byte(i+1))
	}
	if testing.Short() {
		bits, all = []byte{0x01}, bits
	}
	detects(t, "every bit", file, bits)
	detects(t, "every value", first, all)
}

func detects(t *testing.T, name string, file, flips []byte) {
	t.Helper()
	changed := bytes.Clone(file)
	for at := range file {
		for _, flip := range flips {
			changed[at] = file[at] ^ flip
			log, err := journal.Read(bytes.NewReader(changed))
			code := reason.CodeOf(err)
			seen := code == reason.JournalSyntax || code == reason.JournalChain
			torn := err == nil && log.TornBytes > 0 && at == len(file)-1
			if !seen && !torn {
				t.Fatalf("%s: byte %d changed from %q to %q: %v, %v", name, at, file[at], changed[at], log, err)
			}
		}
		changed[at] = file[at]
	}
}

// Cutting a file anywhere leaves a prefix: whole entries, the rest reported as
// torn, and never the head of the whole.
func TestReadOfEveryPrefix(t *testing.T) {
	t.Parallel()
	file := content(t)
	whole, err := journal.Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	head, err := journal.HeadOf(whole.Entries)
	if err != nil {
		t.Fatal(err)
	}
	for end := range file {
		log, err := journal.Read(bytes.NewReader(file[:end]))
		if err != nil {
			t.Fatalf("%d bytes: %v", end, err)
		}
		complete := bytes.LastIndexByte(file[:end], '\n') + 1
		if log.TornBytes != int64(end-complete) || len(log.Entries) != bytes.Count(file[:end], []byte("\n")) {
			t.Fatalf("%d bytes: %d entries, %d torn", end, len(log.Entries), log.TornBytes)
		}
		if log.TornBytes > 0 || len(log.Entries) == 0 {
			continue
		}
		if !reflect.DeepEqual(log.Entries, whole.Entries[:len(log.Entries)]) {
			t.Fatalf("%d bytes: not a prefix", end)
		}
		if got, err := journal.HeadOf(log.Entries); err != nil || got.Head == head.Head || got.Root == head.Root {
			t.Fatalf("%d bytes: head is %+v, %v", end, got, err)
		}
	}
}

func TestReadBoundsALine(t *testing.T) {
	t.Parallel()
	first, _, _ := strings.Cut(string(content(t)), "\n")
	for name, tail := range map[string]string{"with LF": "\n", "torn": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endless := io.LimitReader(repeat('x'), journal.MaxLine+1)
			_, err := journal.Read(io.MultiReader(strings.NewReader(first+"\n"), endless, strings.NewReader(tail)))
			wantCode(t, err, reason.JournalSyntax, 2, "longer")
		})
	}
}

type repeat byte

func (r repeat) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

func TestReadAcceptsALongLine(t *testing.T) {
	t.Parallel()
	w, path := create(t)
	long := steps()[0]
	long.Inputs = map[string]string{"text": strings.Repeat("x", 1<<20)}
	for _, s := range []journal.Step{long, steps()[1], long} {
		if _, err := w.Append(s); err != nil {
			t.Fatal(err)
		}
	}
	log, err := journal.ReadFile(path)
	if err != nil || !reflect.DeepEqual(log.Entries, w.Entries()) {
		t.Errorf("Read: %v", err)
	}
}

func TestReadPassesReadErrorsOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	_, err := journal.Read(io.MultiReader(bytes.NewReader(content(t)), errReader{broken}))
	if !errors.Is(err, broken) || reason.CodeOf(err) != "" {
		t.Errorf("Read = %v", err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func stepGenerator() *rapid.Generator[journal.Step] {
	name := rapid.StringMatching(`[ -~]{1,20}`)
	value := rapid.OneOf(rapid.String().AsAny(), rapid.Int32().AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil),
		rapid.SliceOfN(rapid.String(), 0, 3).AsAny())
	object := rapid.OneOf(rapid.Just[any](nil), rapid.MapOfN(rapid.StringMatching(`[ -~]{0,5}`), value, 0, 4).AsAny())
	return rapid.Custom(func(t *rapid.T) journal.Step {
		s := journal.Step{
			StepID: name.Draw(t, "step_id"), Name: name.Draw(t, "name"),
			Status:    rapid.SampledFrom([]journal.Status{journal.Started, journal.Completed, journal.Failed, journal.Skipped, journal.Denied}).Draw(t, "status"),
			StartedAt: start.Add(rapidDuration().Draw(t, "start")),
			Inputs:    object.Draw(t, "inputs"), Outputs: object.Draw(t, "outputs"),
		}
		if rapid.Bool().Draw(t, "ended") {
			s.CompletedAt = s.StartedAt.Add(rapidDuration().Draw(t, "took"))
		}
		return s
	})
}

func TestAppendThenReadIsIdentity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gen := stepGenerator()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "journal.jsonl")
		defer os.Remove(path)
		w, err := journal.Create(path, "s")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { w.Close() }()
		for _, s := range rapid.SliceOfN(gen, 1, 8).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "reopen") == 0 && len(w.Entries()) > 0 {
				w.Close()
				if w, err = journal.Continue(path); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.Append(s); err != nil {
				t.Fatal(err)
			}
		}
		log, err := journal.ReadFile(path)
		if err != nil || log.TornBytes != 0 || !reflect.DeepEqual(log.Entries, w.Entries()) {
			t.Fatalf("%+v, %v\nwant %+v", log, err, w.Entries())
		}
		for _, e := range log.Entries {
			if line, err := canon.Marshal(e); err != nil || canon.Check(line) != nil {
				t.Fatalf("%+v: %v", e, err)
			}
		}
	})
}
