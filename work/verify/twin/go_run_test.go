package twin

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"remit/fixtures/tally"
)

// styled is a module whose tests are written in many ways.
type styled struct {
	dir   string
	src   map[string][]byte
	files map[string]File
}

// newStyled writes testdata/styles.txtar into a directory of the test. One of
// its files gets lines that end in CRLF, the last of which does not end.
func newStyled(t *testing.T) *styled {
	t.Helper()
	a, err := txtar.ParseFile("testdata/styles.txtar")
	if err != nil {
		t.Fatal(err)
	}
	s := &styled{dir: t.TempDir(), src: map[string][]byte{}, files: map[string]File{}}
	for _, f := range a.Files {
		data := f.Data
		if f.Name == "crlf_test.go" {
			data = bytes.ReplaceAll(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"), []byte("\r\n"))
		}
		if strings.HasSuffix(f.Name, "_test.go") {
			s.src[f.Name] = data
			if s.files[f.Name], err = parseGo(f.Name, data); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(s.dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// parseGo parses a file of a module with a version that has all sites.
func parseGo(path string, src []byte) (File, error) { return ParseGo(path, src, "go1.20") }

// edit writes all test files by the same orders, each with its own key.
func (s *styled) edit(t *testing.T, o Orders, pick func(Test) (Order, bool)) {
	t.Helper()
	for name, f := range s.files {
		o.Key = keyOf(name)
		o.Sabotage = map[string]Order{}
		for _, test := range f.Tests() {
			if order, ok := pick(test); ok {
				o.Sabotage[test.Name] = order
			}
		}
		out, err := f.Edit(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, name), out, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func neutral(Test) (Order, bool) { return Order{}, false }

// goTool runs the go command in the module, without a network.
func (s *styled) goTool(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod "+os.Getenv("GOFLAGS"), "GOWORK=off", "GOPROXY=off", "GOTOOLCHAIN=local", "GO111MODULE=on")
	out, err := cmd.CombinedOutput()
	t.Logf("go %s: %v", strings.Join(args, " "), err)
	return out
}

// verdicts runs the tests, and returns how each ended.
func (s *styled) verdicts(t *testing.T) map[string]string {
	t.Helper()
	out := s.goTool(t, "test", "-json", "-count=1", "-vet=off", "-ldflags=-w", ".")
	got := map[string]string{}
	in := bufio.NewScanner(bytes.NewReader(out))
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(in.Bytes(), &e) == nil && e.Test != "" {
			switch e.Action {
			case "pass", "fail", "skip":
				got[e.Test] = e.Action
			}
		}
	}
	if len(got) == 0 {
		t.Fatalf("no results:\n%s", out)
	}
	return got
}

// compare reports the tests that did not end as they should: as on the base, or
// failed if they were sabotaged.
func compare(t *testing.T, what string, base, got map[string]string, sabotaged map[string]bool) {
	t.Helper()
	for name, want := range base {
		top, _, sub := strings.Cut(name, "/")
		switch {
		case sabotaged[top] && sub:
			continue // one row at least fails, which fails the test
		case sabotaged[top]:
			want = "fail"
		}
		if got[name] != want {
			t.Errorf("%s: %s is %q, want %q", what, name, got[name], want)
		}
	}
}

// TestGoNeutral edits every site so that no verdict may change.
func TestGoNeutral(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 4)
	s := newStyled(t)
	base := s.verdicts(t)
	for name, how := range base {
		if how == "fail" {
			t.Errorf("%s fails as it was written", name)
		}
	}
	for seed := byte(1); seed <= 2; seed++ {
		s.edit(t, Orders{Seed: [32]byte{seed}, Quiet: seed == 2}, neutral)
		compare(t, "neutral", base, s.verdicts(t), nil)
	}
	if out := s.goTool(t, "vet", "."); bytes.Contains(out, []byte(".go:")) {
		t.Errorf("go vet:\n%s", out)
	}
}

// everySite says whether the tests sabotage every site, or those that a seed
// chooses: REMIT_CHEATS=all has every one.
func everySite() bool { return os.Getenv("REMIT_CHEATS") == "all" }

// sampled is how many rounds a default run makes; siteSeed chooses them.
const sampled = 4

var siteSeed = sync.OnceValue(func() uint64 {
	if given, err := strconv.ParseUint(os.Getenv("REMIT_CHEAT_SEED"), 10, 64); err == nil {
		return given
	}
	return rand.Uint64()
})

// TestGoSabotage sabotages the sites of all tests, one of each test at a time:
// those tests fail, and only they do.
func TestGoSabotage(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	s := newStyled(t)
	base := s.verdicts(t)
	trace := filepath.Join(t.TempDir(), "trace")
	s.edit(t, Orders{Seed: [32]byte{9}, Trace: trace}, neutral)
	compare(t, "traced", base, s.verdicts(t), nil)
	reached := readTrace(t, trace)
	nth := func(f *FileTrace, test Test, round int) (Order, bool) {
		n := 0
		for _, ok := nth(f, test, n); ok; _, ok = nth(f, test, n) {
			n++
		}
		switch {
		case everySite() || n == 0:
			return nth(f, test, round)
		case round >= sampled:
			return Order{}, false
		}
		return nth(f, test, int((siteSeed()+uint64(round*n/sampled))%uint64(n))) // spread over its sites
	}
	t.Logf("REMIT_CHEAT_SEED=%d", siteSeed())
	for round := 0; ; round++ {
		sabotaged := map[string]bool{}
		for name, f := range s.files {
			for _, test := range f.Tests() {
				if _, ok := nth(reached.Files[keyOf(name)], test, round); ok {
					sabotaged[test.Name] = true
				}
			}
		}
		if len(sabotaged) == 0 {
			break
		}
		for name, f := range s.files {
			one := &styled{dir: s.dir, files: map[string]File{name: f}}
			one.edit(t, Orders{Seed: [32]byte{byte(20 + round)}}, func(test Test) (Order, bool) {
				return nth(reached.Files[keyOf(name)], test, round)
			})
		}
		compare(t, "round "+strconv.Itoa(round), base, s.verdicts(t), sabotaged)
	}
}

// TestGoQuiet: a test that fails says neither what it got nor what it wants, nor
// where.
func TestGoQuiet(t *testing.T) {
	t.Parallel()
	const src = "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tt.Logf(\"secret %d\", 1)\n\tfor _, want := range []int{41, 42} {\n\t\tif 1 != want {\n\t\t\tt.Errorf(\"secret %d\", want)\n\t\t}\n\t}\n\tif t.Failed() {\n\t\tt.Fatal(\"secret\", 43)\n\t}\n}\n"
	f, err := parseGo("a_test.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	s := &styled{dir: t.TempDir(), files: map[string]File{"a_test.go": f}}
	if err := os.WriteFile(filepath.Join(s.dir, "go.mod"), []byte("module example.com/a\n\ngo 1.20\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.edit(t, Orders{Seed: [32]byte{3}, Quiet: true}, neutral)
	out := string(s.goTool(t, "test", "-count=1", "-v", "."))
	lines := map[string]bool{}
	for _, m := range regexp.MustCompile(`a_test.go:\d+: .*`).FindAllString(out, -1) {
		lines[m[strings.Index(m, ": "):]] = true
	}
	if strings.Contains(out, "secret") || !strings.Contains(out, "--- FAIL: TestA") || len(lines) != 1 {
		t.Errorf("%v\n%s", lines, out)
	}
}

// TestGoEvaluation turns the second evaluation of a table's assertion: one of
// its two rows fails.
func TestGoEvaluation(t *testing.T) {
	t.Parallel()
	s := newStyled(t)
	s.edit(t, Orders{Seed: [32]byte{7}}, func(test Test) (Order, bool) {
		for _, site := range test.Sites {
			if test.Name == "TestTable" && site.Kind == Flip {
				return Order{Site: site.ID, Evaluation: 2}, true
			}
		}
		return Order{}, false
	})
	got := s.verdicts(t)
	failed := 0
	for name, how := range got {
		row := strings.HasPrefix(name, "TestTable/")
		if how == "fail" && row {
			failed++
		}
		if how == "fail" && !row && name != "TestTable" {
			t.Errorf("%s fails", name)
		}
	}
	if failed != 1 || got["TestTable"] != "fail" {
		t.Errorf("%d rows failed, TestTable is %q", failed, got["TestTable"])
	}
}

// nth is the order for the n-th site of a test among those that were reached.
func nth(f *FileTrace, test Test, n int) (Order, bool) {
	for _, site := range test.Sites {
		if f == nil || f.Sites[site.ID] == nil {
			continue
		}
		if n == 0 {
			return Order{Site: site.ID, Evaluation: 1}, true
		}
		n--
	}
	return Order{}, false
}

func keyOf(name string) string {
	return strings.TrimSuffix(strings.ReplaceAll(name, "_", "-"), ".go")
}

func readTrace(t *testing.T, path string) *Trace {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trace, err := ReadTrace(f)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}
