//test:both-package It mostly computes; lines and audits have several goroutines.

package evidence

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"remit/proof/reason"
)

// linesOf checks one JSONL file by itself.
func linesOf(ctx context.Context, text []byte) []reason.Finding {
	c := &schemaCheck{ctx: ctx, files: fstest.MapFS{EventsFile: &fstest.MapFile{Data: text}}, valid: map[string][]byte{}}
	c.lines(document{file: EventsFile, schema: "event", lines: true})
	return c.found
}

// TestLinesOverManyBatches: a defect is found wherever it stands, findings
// come in the order of the file, and a file that is wrong all over does not
// fill the report.
func TestLinesOverManyBatches(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/golden/pass/" + EventsFile)
	if err != nil {
		t.Fatal(err)
	}
	good, _, _ := bytes.Cut(raw, []byte("\n"))
	const n = 2*batchLines + 100
	build := func(bad ...int) []byte {
		lines := bytes.Split(bytes.Repeat(append(bytes.Clone(good), '\n'), n), []byte("\n"))
		for _, at := range bad {
			lines[at-1] = bytes.Replace(good, []byte(`"specversion":"1.0"`), []byte(`"specversion":"2.0"`), 1)
		}
		return bytes.Join(lines, []byte("\n"))
	}
	if found := linesOf(t.Context(), build()); len(found) > 0 {
		t.Fatalf("%d findings, the first %s", len(found), found[0])
	}
	places := []int{1, 7, batchLines, batchLines + 1, 2 * batchLines, n}
	found := linesOf(t.Context(), build(places...))
	if len(found) != len(places) {
		t.Fatalf("%d findings, want %d", len(found), len(places))
	}
	for i, f := range found {
		if f.Line != places[i] || f.Code != reason.SchemaInvalid {
			t.Errorf("finding %d is %s, want line %d", i, f, places[i])
		}
	}
	if found := linesOf(t.Context(), []byte(strings.Repeat("{}\n", n))); len(found) != maxFileFindings+1 {
		t.Errorf("a file that is wrong all over has %d findings", len(found))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found := linesOf(ctx, build()); len(found) != 1 || found[0].Code != reason.GateUnavailable {
		t.Errorf("after a cancellation: %v", found)
	}
}
