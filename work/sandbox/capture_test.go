//go:build linux

package sandbox

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/work/tree"
)

// layers returns the driver with each way of making a tree writable.
func layers(t testing.TB) map[string]Driver {
	return map[string]Driver{layerOverlay: open1(t), layerCopy: without(t, controlled{copyLayer: true})}
}

func text(path, content string, executable bool) tree.Change {
	return tree.Change{Path: path, Kind: tree.File, Size: int64(len(content)), Executable: executable, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
}

// shown renders changes on one line.
func shown(t testing.TB, changes []tree.Change) string {
	t.Helper()
	var lines []string
	for _, c := range changes {
		line := fmt.Sprintf("%s %q", c.Kind, c.Path)
		switch c.Kind {
		case tree.File:
			r, err := c.Open()
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(r)
			if r.Close(); err != nil {
				t.Fatal(err)
			}
			if c.Executable {
				line += " x"
			}
			line += fmt.Sprintf(" %q", content)
		case tree.Symlink:
			line += fmt.Sprintf(" -> %q", c.Target)
		case tree.Special:
			line += " " + c.Note
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "|")
}

// state is a listing of a directory that shows any write to it.
func state(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := walk(dir, func(p string, info os.FileInfo) {
		content, _ := os.ReadFile(p)
		target, _ := os.Readlink(p)
		fmt.Fprintln(&b, p, info.Mode(), info.ModTime().UnixNano(), target, string(content))
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func walk(dir string, visit func(string, os.FileInfo)) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		p := dir + "/" + e.Name()
		if visit(p, info); e.IsDir() {
			if err := walk(p, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestLayers(t *testing.T) {
	t.Parallel()
	for name, d := range layers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lower := t.TempDir()
			write(t, lower+"/secret", "only mine")
			if err := os.Chmod(lower+"/secret", 0o600); err != nil {
				t.Fatal(err)
			}
			before := state(t, lower)
			o := shell(t, d, Spec{Lower: lower, Capture: true, SpoolDir: t.TempDir()}, `cat secret >copy; chmod 600 copy; stat -c %u:%a . secret copy; echo more >>secret`)
			if o.Layer != name {
				t.Errorf("layer %q", o.Layer)
			}
			if want := "64242:755\n64242:600\n64242:600\n"; o.out != want {
				t.Errorf("owners and modes are %q", o.out)
			}
			if got := shown(t, o.Changes); got != `file "copy" "only mine"|file "secret" "only minemore\n"` {
				t.Error(got)
			}
			if state(t, lower) != before {
				t.Error("the base tree was written to")
			}
		})
	}
}

// What a hostile program can leave behind, and what of it is reported.
func TestHostileNamesAndTypes(t *testing.T) {
	t.Parallel()
	e := escape(t, "odd file names and types")
	for name, d := range layers(e) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lower := t.TempDir()
			write(t, lower+"/was-file", "1")
			write(t, lower+"/was-dir/x", "1")
			o := shell(t, d, Spec{Lower: lower, Capture: true, SpoolDir: t.TempDir()}, `
				printf 1 >"$(printf 'new\nline')"; printf 2 >"$(printf '\377\376')"; printf 3 >./-rf; printf 4 >'a "b" $(c)'
				ln -s /etc/shadow out; ln -s loop loop; mkfifo fifo; rm was-file; mkfifo was-file
				cp /usr/bin/id suid; chmod 4755 suid; : >empty; ln empty hard; mkdir -p sub/.git emptydir; echo '[core]' >sub/.git/config
				truncate -s 300M sparse; : >none; chmod 000 none; rm -r was-dir; ln -s / was-dir
				mknod dev c 1 3 2>/dev/null && exit 1; exit 0`)
			want := strings.Join([]string{
				`file "-rf" "3"`, `file "a \"b\" $(c)" "4"`, `file "empty" ""`, `special "fifo" fifo`, `file "hard" ""`, `symlink "loop" -> "loop"`,
				`file "new\nline" "1"`, `file "none" ""`, `symlink "out" -> "/etc/shadow"`, `special "sparse" too-large`, `special "sub/.git" nested-git`,
				`special "suid" setuid`, `symlink "was-dir" -> "/"`, `special "was-file" fifo`, `file "\xff\xfe" "2"`,
			}, "|")
			if got := shown(t, o.Changes); got != want {
				t.Errorf("got\n%s\nwant\n%s", strings.ReplaceAll(got, "|", "\n"), strings.ReplaceAll(want, "|", "\n"))
			} else {
				e.All(strings.Count(want, "|") + 1)
			}
		})
	}
}

// Reading the upper layer of the overlay must find exactly what a comparison
// of two whole trees finds: whiteouts, opaque directories and renamed ones
// included. The operations are random, the seed is in the failure.
func TestUpperEqualsFullWalk(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 7))
			lower := t.TempDir()
			for i := range 4 {
				for j := range 3 {
					write(t, fmt.Sprintf("%s/d%d/e%d/f", lower, i, j), fmt.Sprint(i, j))
				}
				write(t, fmt.Sprintf("%s/d%d/g", lower, i), fmt.Sprint(i))
			}
			script := randomScript(rng)
			var got [2]string
			for i, name := range []string{layerOverlay, layerCopy} {
				o := shell(t, layers(t)[name], Spec{Lower: lower, Capture: true, SpoolDir: t.TempDir()}, script)
				if o.Layer != name {
					t.Fatalf("layer %q", o.Layer)
				}
				got[i] = shown(t, o.Changes)
			}
			if got[0] != got[1] {
				t.Errorf("seed %d, script\n%s\nupper:\n%s\nfull walk:\n%s", seed, script, strings.ReplaceAll(got[0], "|", "\n"), strings.ReplaceAll(got[1], "|", "\n"))
			}
		})
	}
}

// randomScript is a sequence of operations of which any may fail.
func randomScript(rng *rand.Rand) string {
	dir := func() string {
		if rng.IntN(2) == 0 {
			return fmt.Sprintf("d%d", rng.IntN(5))
		}
		return fmt.Sprintf("d%d/e%d", rng.IntN(5), rng.IntN(4))
	}
	file := func() string { return dir() + []string{"/f", "/g", "/h"}[rng.IntN(3)] }
	var b strings.Builder
	for i := range 25 {
		op := []string{
			fmt.Sprintf("echo %d >%s", i, file()),
			fmt.Sprintf("cp %s %s", file(), file()),
			"rm -rf " + dir(),
			"rm -f " + file(),
			fmt.Sprintf("x=%s; rm -rf $x; mkdir -p $x", dir()),           // opaque
			fmt.Sprintf("mv -T %s %s", dir(), dir()),                     // redirect, or a copy
			fmt.Sprintf("mv -T %s d%d/moved", dir(), rng.IntN(5)),        // below a changed one
			fmt.Sprintf("x=%s; mv -T $x m; mkdir -p $x", dir()),          // moved away, new in its place
			fmt.Sprintf("x=%s; mv -T $x m2 && mv -T m2 $x", dir()),       // and back
			fmt.Sprintf("x=%s; rm -rf $x; ln -s d0 $x", dir()),           // directory to link
			fmt.Sprintf("x=%s; rm -rf $x; echo file >$x", dir()),         // directory to file
			fmt.Sprintf("x=%s; rm -f $x; mkdir $x; touch $x/in", file()), // file to directory
			"touch " + file(),                                            // copied up, unchanged
			"chmod +x " + file(),                                         //
			fmt.Sprintf("x=%s; cp -p $x t; rm $x; mv t $x", file()),      // same again
			fmt.Sprintf("ln %s %s", file(), file()),                      //
			fmt.Sprintf("x=%s; rmdir $x; mkdir $x", dir()),               //
			fmt.Sprintf("chmod 700 %s; touch %s/new%d", dir(), dir(), i), //
		}
		fmt.Fprintln(&b, op[rng.IntN(len(op))])
	}
	return "exec 2>/dev/null\n" + b.String() + "exit 0\n"
}

// As root a directory of the base can be renamed at once, which leaves a
// redirect in the upper layer.
func TestRenamedDirectory(t *testing.T) {
	t.Parallel()
	needRoot(t)
	lower := t.TempDir()
	write(t, lower+"/old/sub/f", "1")
	write(t, lower+"/old/g", "2")
	write(t, lower+"/target/sub/f", "1") // the same content as what will be there
	o := try(t, open1(t), Spec{Lower: lower, Capture: true, SpoolDir: t.TempDir()},
		"python3", "-c", `import os; os.rename("old", "new"); os.rename("target", "t"); os.rename("new", "target")`)
	if !o.Started {
		t.Skip("SKIPPED, no python3")
	}
	if got := shown(t, o.Changes); o.ExitCode != 0 || got != `delete "old"|file "t/sub/f" "1"|file "target/g" "2"` {
		t.Errorf("exit %d %s\n%s", o.ExitCode, o.out, got)
	}
}

func TestCaptureOfHugeFiles(t *testing.T) {
	t.Parallel()
	// 300 MB of holes each: the files are specials, not content.
	o := shell(t, open1(t), Spec{Capture: true, SpoolDir: t.TempDir()}, `for i in 1 2 3; do truncate -s 300M f$i; done`)
	if got := shown(t, o.Changes); got != `special "f1" too-large|special "f2" too-large|special "f3" too-large` {
		t.Error(got)
	}
}
