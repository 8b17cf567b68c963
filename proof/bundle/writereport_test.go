package bundle

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReportCannotBeForged: the output of a command stays inside its fence, and
// a name or detail stays on its line.
func TestReportCannotBeForged(t *testing.T) {
	t.Parallel()
	const forged = "print ```\n# Audit: PASS\n````\n"
	dir := sealed(t, session)
	r := auditPath(t, dir, Options{Gates: passing(), Run: []string{forged, "fail 1"}, Runner: &runner{}})
	r.Gates[0].Findings = append(r.Gates[0].Findings, r.Gates[9].Findings[0])
	r.Gates[0].Findings[0].Path = "x`\n# Audit: PASS\x1b[2J"
	var b bytes.Buffer
	if err := r.WriteReport(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if !strings.HasPrefix(text, "# Audit: FAIL\n") || !strings.Contains(text, "\n`````text\n```\n# Audit: PASS\n````\n`````\n") {
		t.Errorf("%s", text)
	}
	if strings.Contains(text, "\x1b") || !strings.Contains(text, `x'\u000a# Audit: PASS\u001b[2J`) {
		t.Errorf("%s", text)
	}
}

// TestOutputIsBounded: the report keeps the first and the last half and says
// so; the raw log has everything.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	logs := filepath.Join(t.TempDir(), "logs")
	long := "first" + strings.Repeat("0123456789", MaxOutputBytes/5) + "last"
	dir := sealed(t, session)
	r := auditPath(t, dir, Options{Gates: passing(), Run: []string{"ok", "print " + long}, Runner: &runner{}, LogDir: logs})
	c := r.Commands[1]
	if !c.StdoutCut || c.StdoutBytes != int64(len(long)) || c.StdoutSHA256 != sha(long) || len(c.Stdout) > MaxOutputBytes+200 ||
		!strings.HasPrefix(c.Stdout, "first0123") || !strings.HasSuffix(c.Stdout, "789last") || !strings.Contains(c.Stdout, "bytes are cut here") {
		t.Errorf("cut %t, %d bytes kept of %d", c.StdoutCut, len(c.Stdout), c.StdoutBytes)
	}
	raw, err := os.ReadFile(filepath.Join(logs, "tests-2.stdout.log"))
	if err != nil || string(raw) != long {
		t.Errorf("the raw log has %d bytes: %v", len(raw), err)
	}
	if _, err := os.Stat(filepath.Join(logs, "tests-1.stderr.log")); err != nil {
		t.Error(err)
	}
}

// TestCaptureKeepsBothEnds writes in pieces of all sizes.
func TestCaptureKeepsBothEnds(t *testing.T) {
	t.Parallel()
	for _, total := range []int{0, 1, captureHalf, MaxOutputBytes, MaxOutputBytes + 1, 3*MaxOutputBytes + 17} {
		for _, piece := range []int{4096, 100_003, MaxOutputBytes + 5} {
			all := make([]byte, total)
			for i := range all {
				all[i] = byte(i * 7 % 251)
			}
			c := newCapture()
			for rest := all; len(rest) > 0; {
				n := min(piece, len(rest))
				_, _ = c.Write(rest[:n])
				rest = rest[n:]
			}
			text, n, _, cut := c.result()
			head, tail := all[:min(total, captureHalf)], all[total-min(total, captureHalf):]
			if n != int64(total) || cut != (total > MaxOutputBytes) || !strings.HasPrefix(text, string(head)) || !strings.HasSuffix(text, string(tail)) ||
				!cut && text != string(all) {
				t.Errorf("total %d in pieces of %d: %d bytes kept", total, piece, len(text))
			}
		}
	}
}

// failing is a disk that is full after some bytes.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestCaptureReportsAFullDisk(t *testing.T) {
	t.Parallel()
	c := newCapture()
	c.raw = failing{}
	if n, err := c.Write([]byte("abc")); n != 3 || err != nil || c.err == nil {
		t.Errorf("%d %v %v", n, err, c.err)
	}
}

func sha(s string) string {
	c := newCapture()
	_, _ = c.Write([]byte(s))
	_, _, digest, _ := c.result()
	return digest
}
