//go:build !race

package panel

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/nexus/authority"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
)

// TestInert: what is unseen is shown as its code point, and everything else stays.
func TestInert(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\n\ttext – “ok” é 漢": "plain\n\ttext – “ok” é 漢", "a\u202eb": "a⟨U+202E⟩b", "\x1b[1m\r\x00": "⟨U+001B⟩[1m⟨U+000D⟩⟨U+0000⟩", "\u200b\ufeff": "⟨U+200B⟩⟨U+FEFF⟩",
		"\xff": "⟨FF⟩", "\u2028": "⟨U+2028⟩", "\u00ad": "⟨U+00AD⟩", "\U000e0041": "⟨U+E0041⟩", "\u3164": "⟨U+3164⟩",
	} {
		if got := string(inert([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestWords: figures as people read them.
func TestWords(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		took(500 * time.Microsecond): "<1 ms", took(15 * time.Millisecond): "15 ms", took(21100 * time.Millisecond): "21.1 s", took(92 * time.Second): "1m 32s",
		took(2*time.Hour + time.Minute): "2h 01m", took(-1): "–", money(6800): "$0.0068", money(500_000): "$0.50", money(12_345_678): "$12.345678", money(12_340_000): "$12.34", money(1_999_900): "$1.9999", money(0): "$0.00",
		thousands(1_234_567): "1,234,567", thousands(-1000): "-1,000", count(1, "test"): "1 test", count(2, "test"): "2 tests", shortDigest("sha256:4be1" + strings.Repeat("0", 58) + "9f"): "sha256:4be1…9f",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestLostTests: a test that did not run any more is not shown as one that fails.
func TestLostTests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fixed, broken, notRun int
		cell, says            string
	}{
		{0, 1, 0, "1", "It breaks 1 test that passed before"},
		{0, 2, 3, "2, 3 not run", "It breaks 2 tests that passed before; 3 more did not run"},
		{1, 2, 0, "2", "It fixes 1 test and breaks 2 that passed before"},
		{0, 0, 1, "0, 1 not run", "1 test that ran before did not run with it"},
		{2, 0, 4, "0, 4 not run", "It fixes 2 tests, but 4 tests that ran before did not run with it"},
	} {
		var s Summary
		s.take(&evidence.RunSummary{Tests: &evidence.TestsSummary{Fixed: c.fixed, Broken: c.broken, Missing: c.notRun}})
		d := &runPage{Session: &Session{Summary: s}}
		if _, cell, _, _, _ := s.Figures(time.Now()); cell != c.cell || d.harm() != c.says || !strings.HasPrefix(d.sentence(), c.says+". Nothing was delivered") {
			t.Errorf("%+v: %q, %q, %q", c, cell, d.harm(), d.sentence())
		}
	}
}

// TestDiff: lines have the numbers of both files, and what differs in a line is
// marked if most of it is equal.
func TestDiff(t *testing.T) {
	t.Parallel()
	patch := `diff --git a/slug.go b/slug.go
--- a/slug.go
+++ b/slug.go
@@ -8,3 +9,4 @@ func Slugify
 func Slugify(s string) string {
-	return strings.Join(strings.Fields(s), "-")
+	return strings.Join(separate(s), "-")
+	// another
 }
diff --git a/bin b/bin
new file mode 100644
GIT binary patch
literal 3
diff --git a/old b/new
similarity index 100%
rename from old
rename to new
`
	files, err := parseDiff(strings.NewReader(patch), pageDiff)
	if err != nil || len(files) != 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	f := files[0]
	if f.Path != "slug.go" || f.Added != 2 || f.Removed != 1 || len(f.Lines) != 6 {
		t.Errorf("%+v", f)
	}
	if l := f.Lines[5]; l.Kind != "ctx" || l.Old != 10 || l.New != 12 {
		t.Errorf("the last line is %+v", l)
	}
	if !files[1].Binary || files[1].Op != "new" || files[2].Op != "renamed" || files[2].Path != "new" {
		t.Errorf("%+v %+v", files[1], files[2])
	}
	one, err := parseDiff(strings.NewReader(strings.Replace(patch, "+\t// another\n", "", 1)), pageDiff)
	if err != nil {
		t.Fatal(err)
	}
	marked := ""
	for _, p := range one[0].Lines[3].Parts {
		if p.Marked {
			marked += p.Text
		}
	}
	if marked != "separate" {
		t.Errorf("marked %q of %+v", marked, one[0].Lines[3])
	}
}

// TestDiffIsBounded: a patch of many lines is cut, and says how much is left; the
// page of one file has the rest, a part at a time.
func TestDiffIsBounded(t *testing.T) {
	t.Parallel()
	patch := "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,5000 @@\n" + strings.Repeat("+"+strings.Repeat("y", 30)+"\n", 5000)
	files, err := parseDiff(strings.NewReader(patch), pageDiff)
	if err != nil || len(files[0].Lines) != pageDiff.perFile || len(files[0].Lines)+files[0].Cut != 5001 {
		t.Fatalf("%d lines and %d cut, %v", len(files[0].Lines), files[0].Cut, err)
	}
	seen, b := 0, wholeDiff
	for b.only = 0; ; {
		files, err := parseDiff(strings.NewReader(patch), b)
		if err != nil {
			t.Fatal(err)
		}
		seen += len(files[0].Lines)
		if b.skip += len(files[0].Lines); files[0].Cut == 0 {
			break
		}
	}
	if seen != 5001 {
		t.Errorf("the pages have %d lines", seen)
	}
	for _, wrong := range []string{"@@ -1 +1 @@", "diff --git\n@@ -9999999999999999999999,1 +1 @@\n+x", "diff --git a/x b/x\n@@ -1,-5 +1,-5 @@\n+x", "diff --git a/x b/x\n@@", "\\ No newline"} {
		if _, err := parseDiff(strings.NewReader(wrong), pageDiff); err != nil {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func FuzzDiff(f *testing.F) {
	f.Add("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n")
	f.Fuzz(func(t *testing.T, patch string) {
		files, err := parseDiff(strings.NewReader(patch), pageDiff)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if len(file.Lines) > pageDiff.perFile {
				t.Fatalf("%d lines", len(file.Lines))
			}
		}
	})
}

// TestTimeline: one row is one thing with both ends; parts stand where they belong;
// what has no end says so.
func TestTimeline(t *testing.T) {
	t.Parallel()
	s := hostileSession("20261123T100000Z-b-2")
	line := timelineOf(s, time.Time{})
	var names []string
	for _, r := range line.Rows {
		names = append(names, fmt.Sprintf("%s %s %d", strings.Split(r.Name, " ")[0], r.Mark, len(r.Sub)))
	}
	if got, want := strings.Join(names, "; "), "Gates ok 0; Engine ok 2; Patch ok 0; Verdict fail 0; Operator's ok 0"; got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
	if r := line.Rows[1]; r.X != "12.50%" || r.W != "37.50%" || r.Took != "3.0 s" {
		t.Errorf("the engine is at %s for %s: %s", r.X, r.W, r.Took)
	}
	cut := *s
	cut.Journal, cut.Phase = s.Journal[:4], Interrupted
	if r := timelineOf(&cut, time.Time{}).Rows[1]; r.Mark != "block" || !strings.Contains(r.Fact, "no end") {
		t.Errorf("a run that was cut off: %+v", r)
	}
	cut.Phase = Running
	now := instant(s.Journal[0].StartedAt).Add(time.Minute)
	if r := timelineOf(&cut, now).Rows[1]; r.Mark != "run" || r.Took != "59.0 s" {
		t.Errorf("a run that goes on: %+v", r)
	}
}

// longRun is a run with many tool calls, a log of many bytes, and a change of 300
// files with 5 MB, of which the last is most.
func longRun(calls, logBytes int) *memoryHome {
	h := hostileHome()
	s := *h.sessions[0]
	entries := append([]journal.Entry{}, s.Journal[:3]...)
	for i := range calls {
		step := fmt.Sprint("call", i)
		at := time.Duration(i) * time.Millisecond
		entries = append(entries, entry(int64(len(entries)), evidence.StepTool, step, journal.Started, at, 0,
			evidence.ToolCalled{ID: step, Tool: "bash", Params: json.RawMessage(`{"command":"go test ./..."}`)}, nil))
		entries = append(entries, entry(int64(len(entries)), evidence.StepTool, step, journal.Completed, at, time.Millisecond, nil, evidence.ToolReturned{ID: step}))
	}
	h.files[evidence.TestLogFile] = strings.Repeat("=== RUN   TestSomething/with_a_case\n", logBytes/36) + "needle\n"
	var patch strings.Builder
	for i := range 300 {
		lines := 1
		if i == 299 {
			lines = 60_000
		}
		fmt.Fprintf(&patch, "diff --git a/f%d b/f%d\n--- a/f%d\n+++ b/f%d\n@@ -1,%d +1,%d @@\n%s%s", i, i, i, i, lines, lines,
			strings.Repeat("-"+strings.Repeat("o", 40)+"\n", lines), strings.Repeat("+"+strings.Repeat("n", 40)+"\n", lines))
	}
	h.files[evidence.PatchFile] = patch.String()
	for _, name := range []string{evidence.PatchFile, evidence.TestLogFile} {
		entries = append(entries, entry(int64(len(entries)), evidence.StepArtifact, "artifact-"+name, journal.Completed, time.Minute, 0, nil,
			evidence.ArtifactRecorded{Path: name, SHA256: canon.Digest([]byte(h.files[name])), Bytes: int64(len(h.files[name]))}))
	}
	s.Journal = append(entries, s.Journal[6:]...)
	h.sessions[0] = &s
	return h
}

// TestLargeRun: a run with 2,000 tool calls, 300 changed files and a long log is a
// small page, its log is searched whole, and of 5 MB of change a page has a part.
func TestLargeRun(t *testing.T) {
	t.Parallel()
	home := longRun(2000, 4<<20).onDisk(t)
	w := newWorld(t, home, true)
	b := w.login(w.token("alice", authority.ScopeRead))
	const run = "/runs/20261123T100000Z-b-2"
	read := func(path, want string, most int) {
		t.Helper()
		begin := time.Now()
		out := b.get(path)
		t.Logf("%s: %d bytes in %s", path, len(out.body), time.Since(begin))
		if out.status != 200 || len(out.body) > most || !strings.Contains(out.body, want) || strings.Contains(out.body, "not as sealed") {
			t.Errorf("%s: %d, %d bytes, without %s", path, out.status, len(out.body), want)
		}
	}
	for _, path := range []string{run, run + "?view=split"} {
		read(path, "and 240 files more", 150_000)
	}
	read(run+"/log/test.log?q=NEEDLE", "1 line</h3>", 150_000)
	read(run+"/log/test.log?q=nothing+has+this", "0 lines</h3>", 150_000)
	read(run+"/journal", "entries", 200_000)
	read(run+"/changes", "/changes?file=299", 150_000)
	read(run+"/changes?file=299", "from=1500", 500_000)
	read(run+"/changes?file=299&view=split", "from=1500&amp;view=split", 500_000)
	// What a file hashes to is kept with the file, and not with its name.
	path := filepath.Join(home.dir, evidence.TestLogFile)
	text := strings.Replace(home.files[evidence.TestLogFile], "=== RUN", "=== FUN", 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.get(run+"/log/test.log").body, "not as sealed") {
		t.Error("a log that was changed is shown as sealed")
	}
}

// TestSearchAcrossBlocks: a text is found wherever it stands, also where a block of
// the search ends.
func TestSearchAcrossBlocks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want int64 // where the line begins, or the part of it
	}{
		"at an end":         {strings.Repeat("x", searchBlock-4) + "Needle", 0},
		"a long line":       {strings.Repeat("x", 3*searchBlock-3) + "needle\n", -1},
		"behind many lines": {strings.Repeat("abc\n", searchBlock) + "nEEdle", 4 * searchBlock},
		"the only one":      {"needle", 0},
		"upper, not ASCII":  {strings.Repeat("É\n", 10) + "needle É", 30},
	} {
		d := logPage{Session: &Session{}, Query: "needle"}
		if err := d.search(strings.NewReader(c.text)); err != nil || len(d.Hits) != 1 || c.want > 0 && d.Hits[0].Offset != c.want {
			t.Errorf("%s: %+v, %v", name, d.Hits, err)
		}
	}
}

// TestSideBySide: what was removed stands beside what was added in its place.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	files, err := parseDiff(strings.NewReader("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,4 +1,4 @@ f\n a\n-b\n-c\n+d\n e\n+f\n"), pageDiff)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, p := range files[0].Pairs() {
		text := func(l *diffLine) string {
			if l == nil {
				return "."
			}
			return fmt.Sprintf("%s%d%d", l.Parts[0].Text, l.Old, l.New)
		}
		rows = append(rows, text(p.Left)+"|"+text(p.Right))
	}
	if got, want := strings.Join(rows, " "), "f00|. a11|a11 b20|d02 c30|. e43|e43 .|f04"; got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
}

// manyRuns are summaries of runs, the newest first.
func manyRuns(n int) []Summary {
	one := hostileSession("x").Summary
	var out []Summary
	for i := range n {
		s := one
		s.ID, s.Title, s.Contract = fmt.Sprintf("20261122T100000Z-run-%06d", 999_999-i), fmt.Sprintf("Run %d", i), fmt.Sprint(i/3)
		s.index()
		out = append(out, s)
	}
	return out
}

// TestManyRuns: 10,000 runs are listed a page at a time, each run once.
func TestManyRuns(t *testing.T) {
	t.Parallel()
	h := &memoryHome{}
	for _, s := range manyRuns(10_000) {
		h.sessions = append(h.sessions, &Session{Summary: s})
	}
	w := newWorld(t, h, true)
	b := w.login(w.token("alice", authority.ScopeRead))
	for _, path := range []string{"/", "/?q=run+9999"} {
		begin := time.Now()
		out := b.get(path)
		spent := time.Since(begin)
		t.Logf("%s: %d bytes in %s", path, len(out.body), spent)
		if out.status != 200 || len(out.body) > 100_000 {
			t.Errorf("%s: %d, %d bytes in %s", path, out.status, len(out.body), spent)
		}
	}
	seen := map[string]bool{}
	for path, pages := "/?status=fail", 0; path != "" && pages < 5; pages++ {
		body := b.get(path).body
		for _, piece := range strings.Split(body, `<a href="/runs/`)[1:] {
			id, _, _ := strings.Cut(piece, `"`)
			seen[id] = true
		}
		path = strings.ReplaceAll(between(body, `<a class="btn" href="`, `">Older runs`), "&amp;", "&")
	}
	if len(seen) != 5*pageSize {
		t.Errorf("five pages have %d runs", len(seen))
	}
}

// TestVendored: what was taken over from elsewhere is what its package has, byte for
// byte, and comes with its licence.
func TestVendored(t *testing.T) {
	t.Parallel()
	table, err := assetFiles.ReadFile("assets/VENDORED.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := assetFiles.ReadFile("assets/idiomorph.js")
	if err != nil {
		t.Fatal(err)
	}
	if digest := strings.TrimPrefix(canon.Digest(script), "sha256:"); !strings.Contains(string(table), digest) {
		t.Errorf("idiomorph.js has the digest %s, which VENDORED.md does not", digest)
	}
	if licence, err := assetFiles.ReadFile("assets/idiomorph.LICENSE"); err != nil || !strings.Contains(string(licence), "Zero-Clause BSD") {
		t.Errorf("the licence is %q, %v", licence, err)
	}
}
