package twin

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// python is the interpreter of the system, which is the one that has pytest.
const python = "/usr/bin/python3"

// needPython skips where the interpreter or one of its modules is missing.
func needPython(t *testing.T, modules ...string) {
	t.Helper()
	for _, m := range append(modules, "ast") {
		if err := exec.CommandContext(t.Context(), python, "-c", "import "+m).Run(); err != nil {
			t.Skipf("%s without %s: %v", python, m, err)
		}
	}
}

// findPython runs the program over files and reads what it writes.
func findPython(t *testing.T, dir string, paths ...string) map[string]*PythonSource {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, append([]string{"-I", "-S", "-c", PythonSites}, paths...)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("find sites: %v: %s", err, stderr.Bytes())
	}
	found, err := ReadPython(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// bindText finds the sites of one text.
func bindText(t *testing.T, src string) (File, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "test_it.py"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	return findPython(t, dir, "test_it.py")["test_it.py"].Bind([]byte(src))
}

// mustBind is bindText for a text that can be edited.
func mustBind(t *testing.T, src string) File {
	t.Helper()
	f, err := bindText(t, src)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// mustEdit edits, and checks that the same orders give the same bytes.
func mustEdit(t *testing.T, f File, o Orders) []byte {
	t.Helper()
	first, err := f.Edit(o)
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.Edit(o)
	if err != nil || !bytes.Equal(first, second) {
		t.Fatalf("two edits differ: %v", err)
	}
	return first
}

// runPython runs a command in a directory and returns what it wrote.
func runPython(t *testing.T, dir string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1")
	cmd.WaitDelay = time.Second
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// verdicts reads the outcome of each test from the summary of pytest -rA, with
// the names of tests as this package writes them; a test with a row or a subtest
// that failed has failed.
func verdicts(out string) map[string]string {
	found := make(map[string]string)
	for line := range strings.SplitSeq(out, "\n") {
		word, rest, ok := strings.Cut(line, " ")
		if !ok || !slices.Contains([]string{"PASSED", "FAILED", "ERROR", "XFAIL", "XPASS"}, word) || !strings.Contains(rest, "::") {
			continue
		}
		id, _, _ := strings.Cut(rest, " - ")
		_, name, _ := strings.Cut(id, "::")
		name, _, _ = strings.Cut(name, "[")
		name = strings.TrimSpace(strings.ReplaceAll(name, "::", "."))
		if found[name] == "" || word == "FAILED" || word == "ERROR" {
			found[name] = word
		}
	}
	return found
}

// failed lists the tests that did not pass.
func failed(found map[string]string) []string {
	var names []string
	for name, word := range found {
		if word == "FAILED" || word == "ERROR" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
