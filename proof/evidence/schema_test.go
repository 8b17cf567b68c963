//go:build !race

package evidence

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/proof/canon"
	"remit/proof/reason"
)

const publishedSchemas = "../../schemas"

// TestPublishedSchemas keeps schemas/ at the root equal to what is embedded.
func TestPublishedSchemas(t *testing.T) {
	t.Parallel()
	entries, err := schemaFiles.ReadDir("schemas")
	if err != nil {
		t.Fatal(err)
	}
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.MkdirAll(publishedSchemas, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			raw, err := schemaFiles.ReadFile("schemas/" + e.Name())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(publishedSchemas, e.Name()), raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	published, err := os.ReadDir(publishedSchemas)
	if err != nil {
		t.Fatal(err)
	}
	published = slices.DeleteFunc(published, func(e os.DirEntry) bool { // law/admission and cmd/remit hold these
		return slices.ContainsFunc([]string{"admission-", "decision-", "approval-", "health.", "ladder-guard.", "ladder-refresh.", "records-check."},
			func(prefix string) bool { return strings.HasPrefix(e.Name(), prefix) })
	})
	if len(published) != len(entries) {
		t.Errorf("%d schemas are published, %d are embedded", len(published), len(entries))
	}
	for _, e := range entries {
		embedded, err := schemaFiles.ReadFile("schemas/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(publishedSchemas, e.Name()))
		if err != nil || !bytes.Equal(text, embedded) {
			t.Errorf("schemas/%s is not the embedded one (%v); run go test ./proof/evidence -update", e.Name(), err)
		}
	}
}

// TestSchemasAreWellFormed: each one says of itself what it is, refers to
// nothing outside of itself, and is used.
func TestSchemasAreWellFormed(t *testing.T) {
	t.Parallel()
	used := map[string]bool{proofSchema: true, ladderProofSchema: true, contractV2: true}
	for _, d := range documents() {
		used[d.schema] = true
	}
	for name := range schemas() {
		raw, err := schemaFiles.ReadFile(schemaFile(name))
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Schema, Title, Description string
			ID                         string `json:"$id"`
			Dialect                    string `json:"$schema"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		if s.ID != schemaURN(name) || s.Dialect != "https://json-schema.org/draft/2020-12/schema" || s.Title == "" || s.Description == "" {
			t.Errorf("%s: $id %q, $schema %q, title %q", name, s.ID, s.Dialect, s.Title)
		}
		for part := range strings.SplitSeq(string(raw), `"$ref": "`) {
			if ref, _, _ := strings.Cut(part, `"`); !strings.HasPrefix(ref, "#/$defs/") && !strings.HasPrefix(ref, "{") {
				t.Errorf("%s refers to %q outside of itself", name, ref)
			}
		}
		if !used[name] {
			t.Errorf("schema %s belongs to no document", name)
		}
		delete(used, name)
	}
	for name := range used {
		t.Errorf("there is no schema %s", name)
	}
}

// TestReportDeclaresItsSchema: the Go types have exactly the required keys of
// the schemas, so neither can gain a field without the other.
func TestTypesMatchSchemas(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{"report": Report{}, "receipt": Receipt{}, "event": event{}, "trace": span{}, "test-result": TestResult{}} {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		required := map[string]bool{}
		for _, key := range schemas()[name].required {
			required[key] = true
			if _, ok := fields[key]; !ok {
				t.Errorf("%s: the schema requires %q, the type has no such field", name, key)
			}
		}
		for key := range fields {
			if !required[key] {
				t.Errorf("%s: field %q is not required by the schema", name, key)
			}
		}
	}
}

// TestViolations: a finding names the place by JSON pointer, and says little
// about hostile content.
func TestViolations(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 4000)
	tests := []struct{ schema, text, want string }{
		{"proof", `[]`, `at "": got array, want object`},
		{"trace", `{}`, `missing properties`},
		{"event", `{"specversion":"2.0"}`, `at "/specversion": value must be '1.0'`},
		{"replay", `{"event":"SessionEnd","confidence":1.5,"status":"Success","t":"2026-02-01T00:00:00.000Z","total_latency_ms":0,"total_tool_calls":0}`, `at "/confidence": maximum: got 1.5, want 1`},
		{"replay", `{"event":"ToolResult"}`, `missing properties`},
		{"replay", `{}`, `missing property 'event'`},
		{"journal-entry", `{"seq":-1}`, `at "/seq": minimum: got -1, want 0`},
		{"journal-entry", `{"seq":0.5}`, `at "/seq": got number, want integer`},
		{"contract", `{"schema":"remit.contract.v1","surprise":1}`, `additional properties 'surprise' not allowed`},
		{"contract", `{"schema":"remit.contract.v2","surprise":1}`, `additional properties 'surprise' not allowed`},
		{"contract", `{"schema":"remit.contract.v1","verification_groups":[2]}`, `additional properties 'verification_groups' not allowed`},
		{"contract", `{"schema":"remit.contract.v2","verification_groups":[0]}`, `at "/verification_groups/0": minimum: got 0, want 1`},
		{"contract", `{"schema":"remit.contract.v2","verify":{"control":"preferred"}}`, `at "/verify/control"`},
		{"contract", `{"schema":"remit.contract.v3"}`, `at "/schema": value must be 'remit.contract.v1'`},
		{"context", `{"repo_root":"/home/someone/repo"}`, `at "/repo_root"`},
		{"receipt", `{"tool_calls":[{"side_effects":[{"path":1}]}]}`, `at "/tool_calls/0/side_effects/0/path": got number, want string`},
		{"report", `{"freshness":{"a.json":{"written_at":"yesterday","checked_at":"2026-02-01T00:00:00.000Z"}}}`, `at "/freshness/a.json/written_at"`},
		{"report", `{"artifact_paths":["a","a"]}`, `at "/artifact_paths"`},
		{"report", `{"artifacts_dir":"a/../b"}`, `at "/artifacts_dir"`},
		{"report", `{"status":"` + long + `"}`, `at "/status"`},
	}
	for _, tt := range tests {
		got := violations(tt.schema, []byte(tt.text))
		if text := strings.Join(got, "\n"); !strings.Contains(text, tt.want) {
			t.Errorf("%s %.60s:\n%s\nwant %s", tt.schema, tt.text, text, tt.want)
		}
		for _, v := range got {
			if len(v) > maxDetail+len("…") {
				t.Errorf("a finding repeats %d bytes of the document", len(v))
			}
		}
	}
	for _, ok := range []struct{ schema, text string }{
		{"replay", `{"event":"SomethingNew","anything":[1]}`},
		{"contract", `{}`},
		{"eligibility", `{}`},
		{"proof", `{}`},
	} {
		if got := violations(ok.schema, []byte(ok.text)); len(got) > 0 {
			t.Errorf("%s %s: %v", ok.schema, ok.text, got)
		}
	}
	if got := violations("journal-entry", []byte(`{`+strings.Repeat(`"a":1,`, 3)+`"seq":"`+long+`"}`)); len(got) > maxViolations {
		t.Errorf("%d violations of one document", len(got))
	}
}

// TestTrajectoryVector pins the trajectory hash to the published vector.
func TestTrajectoryVector(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../vectors/canon/trajectory_hash.json")
	if err != nil {
		t.Fatal(err)
	}
	var vector struct {
		Canonical string `json:"trajectory_canonical"`
		Expected  struct {
			Hash string `json:"trajectory_hash"`
		} `json:"expected"`
	}
	if err := json.Unmarshal(raw, &vector); err != nil {
		t.Fatal(err)
	}
	var listed []struct {
		Seq            int     `json:"seq"`
		EventType      string  `json:"event_type"`
		Payload        any     `json:"payload"`
		IdempotencyKey *string `json:"idempotency_key"`
		RecordedAt     string  `json:"recorded_at"`
	}
	if err := json.Unmarshal([]byte(vector.Canonical), &listed); err != nil {
		t.Fatal(err)
	}
	events := make([]event, len(listed))
	var keyless []map[string]any
	for i, l := range listed {
		events[i] = event{Seq: l.Seq, Type: l.EventType, Data: l.Payload, Time: strings.TrimSuffix(l.RecordedAt, "+00:00") + "Z"}
		keyless = append(keyless, map[string]any{"seq": l.Seq, "event_type": l.EventType, "payload": l.Payload, "idempotency_key": nil, "recorded_at": l.RecordedAt})
	}
	if got := canon.Digest([]byte(vector.Canonical)); got != vector.Expected.Hash {
		t.Errorf("the vector's text has %s, it says %s", got, vector.Expected.Hash)
	}
	// Our events have no idempotency key of their own; with that one value
	// null, hashing ours and hashing the vector's array must be the same.
	want, err := canon.DigestOf(keyless)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := trajectoryHash(events); err != nil || got != want {
		t.Errorf("trajectoryHash gives %s (%v), want %s", got, err, want)
	}
}

// TestEachLine: lines are bounded and a last line needs its end.
func TestEachLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("y", 200_000)
	tests := []struct {
		in    string
		lines int
		code  reason.Code
	}{
		{"", 0, ""},
		{"a\nb\n", 2, ""},
		{"\n\n", 2, ""},
		{long + "\n" + long + "\nz\n", 3, ""},
		{"a\nb", 1, reason.NotCanonical},
		{long, 0, reason.NotCanonical},
		{strings.Repeat("y", maxLineBytes+1), 0, reason.SchemaInvalid},
	}
	for _, tt := range tests {
		var got []string
		err := eachLine(strings.NewReader(tt.in), func(line []byte) bool {
			got = append(got, string(line))
			return true
		})
		if len(got) != tt.lines || reason.CodeOf(err) != tt.code {
			t.Errorf("%.20q (%d bytes): %d lines, %v", tt.in, len(tt.in), len(got), err)
		}
		if text := strings.Join(got, "\n"); err == nil && text+"\n" != tt.in && tt.in != "" {
			t.Errorf("%.20q: lines differ", tt.in)
		}
	}
}

// BenchmarkJournalLine is the cost of a line of the largest JSONL file; an
// audit looks at some ten thousand of them.
func BenchmarkJournalLine(b *testing.B) {
	raw, err := os.ReadFile("testdata/golden/pass/journal.jsonl")
	if err != nil {
		b.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n"))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		checkText("journal-entry", lines[i%len(lines)], func(code reason.Code, detail string) { b.Fatal(code, detail) })
	}
}

// FuzzSchemas: no text makes the gate panic or hang, and what it lets through
// is canonical.
func FuzzSchemas(f *testing.F) {
	names := []string{"report", "receipt", "event", "trace", "replay", "journal-entry", "contract", "eligibility", "context", "proof"}
	for i, file := range []string{"report.json", "RECEIPT.json", "context.json", "contract.json"} {
		raw, err := os.ReadFile("testdata/golden/pass/" + file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(i, bytes.TrimSuffix(raw, []byte("\n")))
	}
	f.Add(4, []byte(`{"event":"x","n":1e999999999}`))
	f.Add(4, []byte(strings.Repeat(`{"event":`, 500)))
	f.Fuzz(func(t *testing.T, which int, text []byte) {
		name := names[uint(which)%uint(len(names))]
		if checkText(name, text, func(reason.Code, string) {}) && canon.Check(text) != nil {
			t.Errorf("%s accepts a text that is not canonical: %s", name, fmt.Sprintf("%.100q", text))
		}
	})
}
