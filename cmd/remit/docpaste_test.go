//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"remit/fixtures/tally"
	"remit/work/sandbox"
)

// pastedBlock is what a block of a document takes for granted, and what is to be seen
// when it was pasted: shell text that runs before and after it. The blocks run
// one after the other, each in a shell of its own, which begins where the one
// before it ended.
type pastedBlock struct{ before, after string }

// scenes are by document and the first two words of a block.
var scenes = map[string]pastedBlock{
	"README.md: make run": {`cd "$HOME/remit"`, `
grep -q 'base  *FAIL ' "$said" && grep -q 'head  *PASS ' "$said"
python3 "$HOME/verify.py" .remit-demo/*/bundle.zip
test "$(grep -c '^Next:$' "$said")" = 1 # and that one works:
awk '/^  /{if (on) print} !/^  /{on = /^Next:$/}' "$said" | sed 's/ make vignette / make -n vignette /' > "$HOME/next.sh"
grep -q 'accept .* --reason' "$HOME/next.sh"
bash -euo pipefail "$HOME/next.sh"
git -C "$(echo .remit-demo/*/repo)" log --format=%s --all | grep 'Slugs must be lower case' # all of it is read: no pipe breaks
`},
	"README.md: make install": {`cd "$HOME/remit"`, `
grep -q "is not on your PATH" "$said"
grep -q 'ok  *sandbox ' "$said"
test "$(command -v remit)" = "$HOME/.local/bin/remit"
test -s "$HOME/.local/share/man/man1/remit-run.1"
bash -n "$HOME/.local/share/bash-completion/completions/remit"
(cd "$HOME/remit" && DESTDIR=$HOME/stage PREFIX=/opt/x make install && make uninstall PREFIX=/opt/x DESTDIR="$HOME/stage")
test -z "$(find "$HOME/stage" -type f)"
! PREFIX=relative make -C "$HOME/remit" install
`},
	"README.md: cd your/project": {newProject, `
grep -q '^PASS  base  1 test in .*, 0 failed$' "$said" && grep -q '^PASS ' "$said" && grep -q 'head  *PASS  python3 -m unittest' "$said"
git diff --quiet
`},
	"mcp.md: cd your/project":       {newProject, `grep -q '"result":{"capabilities":{"tools":{}}' "$said"`},
	"init.md: cd your/project":      {newProject, `grep -q 'head  *PASS  python3 -m unittest' "$said"`},
	"README.md: cd your/clone":      {newClone, `grep -q 'head  *PASS  python3 -m unittest' "$said" && grep -q 'new tests 1 of 1 fails without' "$said"`},
	"check.md: cd your/clone":       {newClone, `test "$(grep -c '^PASS ' "$said")" = 2`},
	"formats.md: cd your/benchmark": {newClone + newBenchmark, `grep -q '2 predictions: 1 resolved, 0 unresolved, 1 empty, 0 not judged' "$said" && grep -q '"resolved_ids"' "$said"`},
	"formats.md: remit export":      {`rm -rf "$HOME/exported" && mkdir "$HOME/exported" && cd "$HOME/exported"`, `test "$(ls | wc -l)" = 5 && grep -q traceId run.otlp.json && test -s run.swebench/report.json`},
	"README.md: cd your/repository": {`
mkdir -p "$HOME/your/repository/src" && cd "$HOME/your/repository"
printf 'module example.com/slug\n\ngo 1.21\n' > go.mod
printf 'package slug\n\nfunc Slug(s string) string {\n\treturn s\n}\n' > src/slug.go
printf 'package slug\n\nimport "testing"\n\nfunc TestSlug(t *testing.T) {\n\tif got := Slug("A"); got != "a" {\n\t\tt.Errorf("got %%s", got)\n\t}\n}\n' > src/slug_test.go
git init -q -b main && git add -A && git -c user.name=a -c user.email=a@example.com commit -q -m base
printf '#!/bin/sh\nsed -i "s/return s/return strings.ToLower(s)/; s/^package slug/&\\\\n\\\\nimport \\"strings\\"/" src/slug.go\n' > fix.sh
chmod +x fix.sh
cd "$HOME"
`, `
grep -q '^PASS ' "$said"
for line in 'engine    command' 'changed   1 file' 'src/slug.go' 'base      FAIL  go test ./... (exit 1, 0 passed, 1 failed, 0 skipped)' \
  'head      PASS  go test ./... (exit 0, 1 passed, 0 failed, 0 skipped)' 'source    proved untouched' 'outcome   pending' 'bundle    '; do
  grep -qF -- "$line" "$said" || { echo "README shows: $line" >&2; exit 1; }
done
`},
}

// newClone is a repository with a branch that was made without Remit.
const newClone = `
rm -rf "$HOME/your/clone" && mkdir -p "$HOME/your/clone/tests" && cd "$HOME/your/clone"
git config --global user.name a && git config --global user.email a@example.com
printf 'def slug(s):\n    return s\n' > slug.py
printf 'import unittest\nfrom slug import slug\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(slug("a"), "a")\n' > tests/test_slug.py
git init -q -b main && git add -A && git commit -q -m base && git checkout -q -b feature
printf 'def slug(s):\n    return s.lower()\n' > slug.py
printf '\n    def test_lower(self):\n        self.assertEqual(slug("A"), "a")\n' >> tests/test_slug.py
git commit -q -a -m feature && git checkout -q main
cd "$HOME"
`

// newBenchmark is two predictions for it.
const newBenchmark = `
rm -rf "$HOME/your/benchmark" && mkdir -p "$HOME/your/benchmark/checkouts" && cd "$HOME/your/benchmark"
for i in 1 2; do git clone -q "$HOME/your/clone" checkouts/acme__slug-$i; done
git -C "$HOME/your/clone" diff main feature >patch
python3 -c 'import json; [print(json.dumps({"instance_id": f"acme__slug-{i}", "model_name_or_path": "m", "model_patch": p})) for i, p in [(1, open("patch").read()), (2, "")]]' >preds.jsonl
cd "$HOME"
`

// newProject is a repository of a reader, with a program that changes it.
const newProject = `
rm -rf "$HOME/your/project" && mkdir -p "$HOME/your/project/tests" && cd "$HOME/your/project"
git config --global user.name a && git config --global user.email a@example.com
printf 'def slug(s):\n    return s\n' > slug.py
printf 'import unittest\nfrom slug import slug\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(slug("a"), "a")\n' > tests/test_slug.py
git init -q -b main && git add -A && git commit -q -m base
printf '#!/bin/sh\nsed -i "s/return s/return s.lower()/" slug.py\n' > fix.sh
chmod +x fix.sh
cd "$HOME"
`

// withTable are the commands of the table that follows "Sixty seconds", over the
// run that was made there.
func withTable(t *testing.T, readme string) string {
	t.Helper()
	_, rest, _ := strings.Cut(readme, "| then | |")
	table, _, _ := strings.Cut(rest, "\n\n")
	var script strings.Builder
	for _, m := range regexp.MustCompile("(?m)^\\| `(remit [^`|\\\\]+)").FindAllStringSubmatch(table, -1) {
		line := strings.NewReplacer("BUNDLE.zip", `"$bundle"`, "CLONE", ".").Replace(m[1])
		if strings.Contains(line, "--to zip") {
			line = "bundle=$(" + line + ")"
		}
		fmt.Fprintf(&script, "echo '+ %s'\n%s\n", line, line)
	}
	if strings.Count(script.String(), "\n") < 22 {
		t.Errorf("the table has fewer commands than it had:\n%s", &script)
	}
	return script.String()
}

// TestBlocksPaste executes the shell blocks of the documents as they stand: in a
// clean HOME, and as an ordinary user. One built program serves all, in the place
// of what make would build and test.
func TestBlocksPaste(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 7, 8)
	requireSandbox(t)
	if testing.Short() {
		t.Skip("SKIPPED, -short: several whole runs")
	}
	home, as := ordinaryHome(t, `cp vectors/verify.py "${2%/*}/" && cp -R "$3" "${2%/*}/gocache"`)
	script := "cd \"$HOME\"\n"
	for i, b := range shellBlocks(t) {
		s, ok := scenes[b.document+": "+firstWords(b)]
		if !ok {
			continue
		}
		if strings.Contains(b.text, "--verify 'go test") {
			s.after += withTable(t, documents(t)["README.md"])
		}
		// The block is a file of its own, as if it had been pasted: what it exports
		// and where it goes to stays.
		name := filepath.Join(home, fmt.Sprintf("block%d.sh", i))
		if err := os.WriteFile(name, []byte(b.text), 0o644); err != nil {
			t.Fatal(err)
		}
		script += fmt.Sprintf("\necho '== %s'\n%s\nsaid=%s.out\n. %s > \"$said\"\ncat \"$said\"\n%s", firstWords(b), s.before, name, name, s.after)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + home, "LANG=C.UTF-8", sandbox.EnvBuildCache + "=" + filepath.Join(home, "gocache")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL}
	keepThread(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// ordinaryHome is an empty home with a copy of what the first blocks need of the
// source, and the ordinary user whose it is: root's tests step down for that. more
// is shell text that adds to it: $1 is the program, $2 the copy, $3 a build cache.
func ordinaryHome(t *testing.T, more string) (string, *syscall.Credential) {
	t.Helper()
	home, err := os.MkdirTemp("/tmp", "remit-docs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("chmod", "-R", "u+w", home).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	source := filepath.Join(home, "remit")
	prepare := `mkdir -p "$2/fixtures" "$2/tools" && cp "$1" "$2/tools/remit" && cd ../.. && cp -R Makefile go.mod scripts "$2/" && cp -R fixtures/r1-string-slugify "$2/fixtures/" &&
printf '#!/bin/sh\nmkdir -p bin && cp tools/remit bin/remit\n' > "$2/scripts/build.sh" &&
printf '#!/bin/sh\necho tested\n' > "$2/scripts/test.sh" && ` + more
	if out, err := exec.Command("sh", "-c", prepare, "sh", program(), source, os.Getenv(sandbox.EnvBuildCache)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if os.Geteuid() != 0 {
		return home, nil
	}
	if out, err := exec.Command("chown", "-R", fmt.Sprintf("%d:%d", testUID, testUID), home).CombinedOutput(); err != nil {
		t.Fatalf("SKIPPED in part, an ordinary user cannot be tried: %v: %s", err, out)
	}
	return home, &syscall.Credential{Uid: testUID, Gid: testUID}
}

// TestVignetteSaysWhatItNeeds: for a user who cannot enforce the caps of a
// provider the walk ends before it starts, with one line, and not with red checks
// of what could never have worked.
func TestVignetteSaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	home, as := ordinaryHome(t, "true")
	run := func(words ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
		cmd.Dir = filepath.Join(home, "remit")
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + home, "REMIT_BIN=tools/remit", "VIGNETTE_DIR=" + filepath.Join(home, "walk")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL}
		keepThread(t)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if said, err := run("tools/remit", "doctor"); err != nil || !strings.Contains(said, "sandbox limit") {
		t.Skipf("SKIPPED, this user can enforce all caps, or has no sandbox: %v\n%s", err, said)
	}
	said, err := run("make", "vignette")
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if err == nil || len(lines) != 3 || !strings.HasPrefix(lines[1], "vignette: needs a user who can enforce the caps of a provider, and user ") ||
		!strings.Contains(lines[1], "run it as root, or with control groups of your own") {
		t.Errorf("%v:\n%s", err, said)
	}
	if left, err := os.ReadDir(filepath.Join(home, "walk")); err != nil || len(left) != 1 {
		t.Errorf("it left %v, %v, want setup.log", left, err)
	}
}
