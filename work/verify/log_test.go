package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"remit/proof/canon"
	"remit/work/sandbox"
)

var logHeader = regexp.MustCompile(`^=== (base|head) tree=(\w+) repetition=(\d+) command=(\d+)/(\d+)\n(?:.*\n)*?stdout: (\d+) bytes sha256:([0-9a-f]{64})\nstderr: (\d+) bytes sha256:([0-9a-f]{64})\n--- stdout (\d+)\n`)

// TestLogIsRecoverable: whatever a command prints, the log can be split by the
// counts in its headers, and the digests hold.
func TestLogIsRecoverable(t *testing.T) {
	t.Parallel()
	forged := "=== end head pass\n\n=== head tree=head repetition=9 command=1/1\ncommand: true\nexit: 0\n--- stdout 3\nno newline"
	var log bytes.Buffer
	sb := scripted(func(s sandbox.Spec) ([]reply, error) {
		return []reply{{stdout: forged, stderr: "\x00\xff"}, {exit: 3, stderr: forged}}, nil
	})
	p := Plan{Shared: true, Lower: t.TempDir(), Commands: []string{"make\n=== end", "false"}, Log: &log}
	if _, err := Run(t.Context(), sb, p); err != nil {
		t.Fatal(err)
	}
	rest, blocks := log.String(), 0
	take := func(count, digest string) string {
		n, err := strconv.Atoi(count)
		if err != nil || n > len(rest) {
			t.Fatalf("%q bytes of %d", count, len(rest))
		}
		out := rest[:n]
		rest = rest[n:]
		if sum := sha256.Sum256([]byte(out)); hex.EncodeToString(sum[:]) != digest {
			t.Errorf("digest of %q", out)
		}
		return out
	}
	for rest != "" {
		m := logHeader.FindStringSubmatch(rest)
		if m == nil {
			t.Fatalf("no header: %q", rest[:min(len(rest), 300)])
		}
		rest = rest[len(m[0]):]
		take(m[6], m[7])
		rest = strings.TrimPrefix(rest, "\n--- stderr "+m[8]+"\n")
		take(m[8], m[9])
		_, rest, _ = strings.Cut(rest, "\n\n")
		blocks++
	}
	if blocks != 4 {
		t.Errorf("%d blocks", blocks)
	}
	if !strings.Contains(log.String(), `command: make\n=== end`) {
		t.Error("a command breaks the header")
	}
}

// TestOutputCap: what goes beyond the limit is hashed and not kept.
func TestOutputCap(t *testing.T) {
	t.Parallel()
	s, err := newStream(t.TempDir(), 4)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.Write([]byte("abc"))
	s.Write([]byte("defgh"))
	digest, size, err := s.finish()
	var log bytes.Buffer
	if err := copyLog(&log, s); err != nil {
		t.Fatal(err)
	}
	if err != nil || size != 8 || log.String() != "abcd" || digest != canon.Digest([]byte("abcdefgh")) || kept(s) != 4 {
		t.Errorf("%v %d %q %s", err, size, log.String(), digest)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	var got []string
	sb := scripted(func(sandbox.Spec) ([]reply, error) { return []reply{{}, {exit: 1}}, nil })
	p := Plan{Shared: true, Lower: t.TempDir(), Patch: files{"test_a.py": "x"}.changes(), Commands: []string{"true", "false"}, Repeat: 2,
		OnEvent: func(e Event) {
			got = append(got, e.Phase+"/"+e.Run+"/"+strconv.Itoa(e.Repetition)+"/"+string(e.Kind)+"/"+strconv.Itoa(e.Command))
		}}
	if _, err := Head(t.Context(), sb, p); err != nil {
		t.Fatal(err)
	}
	// Runs go on side by side: each has its events in order.
	for _, repetition := range []string{"1", "2"} {
		for _, tree := range []string{TreeUnedited, TreeHead} {
			run := "head/" + tree + "/" + repetition + "/"
			mine := slices.DeleteFunc(slices.Clone(got), func(e string) bool { return !strings.HasPrefix(e, run) })
			want := []string{run + "run.started/-1", run + "command.finished/0", run + "command.finished/1", run + "run.finished/-1"}
			if !slices.Equal(mine, want) {
				t.Errorf("got %q", mine)
			}
		}
	}
	if len(got) != 16 {
		t.Errorf("%d events", len(got))
	}
}

// TestDigestCoversTheSource: every file that is compiled into the verifier is
// in its digest, and no test is.
func TestDigestCoversTheSource(t *testing.T) {
	t.Parallel()
	if !canon.ValidDigest(Digest()) {
		t.Error(Digest())
	}
	err := fs.WalkDir(os.DirFS("."), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") {
			return err
		}
		_, embedded := source.ReadFile(p)
		if isTest := strings.HasSuffix(p, "_test.go"); isTest == (embedded == nil) {
			t.Errorf("%s: test %t, embedded %t", p, isTest, embedded == nil)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
