//go:build linux

package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"remit/work/tree"
)

func TestHostileCacheIsNotKept(t *testing.T) {
	t.Parallel()
	e := escape(t, "hostile entries in a kept build cache")
	d, outside, kept := open1(e), t.TempDir(), filepath.Join(t.TempDir(), "kept")
	write(t, outside+"/secret", "secret")
	honest := []string{entry("1", "a"), entry("1", "d"), entry("2", "d") + "/tool"}
	script := `cd /cache/go-build && mkdir -p 11 22 33 44 55 66 77 88 99 aa bb cc
		echo 1 >` + honest[0] + `; echo 2 >` + honest[1] + `; mkdir ` + entry("2", "d") + `; echo 3 >` + honest[2] + `; chmod 755 ` + honest[2] + `
		ln -s ` + outside + `/secret ` + entry("3", "d") + `
		ln -s /etc/passwd ` + entry("3", "a") + `
		mkfifo ` + entry("4", "d") + `
		truncate -s 300M ` + entry("5", "d") + `
		echo x >` + entry("6", "d") + `; chmod 4755 ` + entry("6", "d") + `
		mkdir ` + entry("7", "d") + `; echo x >` + entry("7", "d") + `/..tool; echo x >"` + entry("7", "d") + `/a b"; ln -s ` + outside + ` ` + entry("7", "d") + `/dir
		ln -s ` + outside + ` dd; rmdir bb; ln -s ` + outside + ` bb
		echo x >11/` + strings.Repeat("2", 64) + `-d
		echo x >README; echo x >testexpire.txt; echo x >11/short-d; echo x >88/` + strings.Repeat("8", 64) + `-x; echo x >00` + strings.Repeat("8", 64) + `-d
		mkdir -p 99/.git fuzz/deep; echo x >99/.git/config
		cd fuzz/deep; i=0; while [ $i -lt 300 ]; do mkdir d && cd d || break; i=$((i+1)); done; echo x >` + strings.Repeat("9", 64) + `-d`
	o := shell(e, d, Spec{KeepCache: kept}, script)
	got := keptFiles(t, kept)
	e.Check(o.GoCache.NotKept == "" && strings.Join(got, " ") == strings.Join(honest, " "), "kept %q, %+v", got, o.GoCache)
	for i, name := range honest {
		text, err := os.ReadFile(filepath.Join(kept, name))
		e.Check(err == nil && string(text) == fmt.Sprintln(i+1), "%s: %q, %v", name, text, err)
		info, err := os.Lstat(filepath.Join(kept, name))
		e.Check(err == nil && info.Mode().IsRegular() && (info.Mode().Perm()&0o100 != 0) == (i == 2) && isOurs(info), "%s: %v, %v", name, info, err)
	}
	left, _ := os.ReadDir(outside)
	e.Check(len(left) == 1, "outside: %v", left)
	// Lent it does no harm, and what stands in the place of a lent entry is not kept.
	again := filepath.Join(t.TempDir(), "again")
	o = shell(e, d, Spec{Caches: []string{kept}, KeepCache: again}, `cd /cache/go-build && [ "$(cat `+honest[2]+`)" = 3 ] &&
		echo evil >`+honest[0]+` && rm `+honest[1]+` && ln -s `+honest[0]+` `+honest[1]+` && rm -r 22 && mkdir -p `+entry("2", "d")+` && echo evil >`+honest[2]+` &&
		cp `+honest[0]+` `+entry("1", "d")+`.x &&
		mv 11 moved && mkdir -p `+entry("1", "d")+` && echo evil >`+entry("1", "d")+`/tool`)
	e.Check(o.GoCache.Lent == 1 && o.GoCache.NotKept == "" && len(keptFiles(t, again)) == 0, "kept again %q, %+v", keptFiles(t, again), o.GoCache)
}

// An entry that was lent, touched and renamed is more than its new name.
// With -h touch sets the time by name, as the go command does, without a copy of
// the content.
func TestKeptEntriesAreWhole(t *testing.T) {
	t.Parallel()
	d, kept, again := open1(t), filepath.Join(t.TempDir(), "kept"), filepath.Join(t.TempDir(), "again")
	shell(t, d, Spec{KeepCache: kept}, "mkdir -p /cache/go-build/11 && echo whole >/cache/go-build/"+entry("1", "d"))
	o := shell(t, d, Spec{Caches: []string{kept}, KeepCache: again}, "cd /cache/go-build && mkdir -p 22 && touch -h -d 2001-01-01 "+entry("1", "d")+" && mv "+entry("1", "d")+" "+entry("2", "d"))
	if text, err := os.ReadFile(filepath.Join(again, entry("2", "d"))); err != nil || string(text) != "whole\n" || o.GoCache.Files != 1 {
		t.Errorf("%q, %v, %+v", text, err, o.GoCache)
	}
	o = shell(t, d, Spec{Caches: []string{kept}, KeepCache: filepath.Join(t.TempDir(), "touched")}, "touch -h -d 2001-01-01 /cache/go-build/"+entry("1", "d"))
	if o.GoCache.Files != 0 || o.GoCache.NotKept != "" {
		t.Errorf("a new time was kept: %+v", o.GoCache)
	}
}

func TestKeptCacheIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bounds keepBounds
		kept   bool
	}{
		"within":         {keepBounds{3, 1000}, true},
		"too many files": {keepBounds{2, 1000}, false},
		"too many bytes": {keepBounds{100, 250}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept := t.TempDir()
			o := shell(t, without(t, controlled{keep: &c.bounds}), Spec{KeepCache: kept, Capture: true, SpoolDir: t.TempDir()},
				`echo made >file; cd /cache/go-build; for i in 1 2 3; do mkdir -p $i$i; printf %100d $i >$i$i/$i${i}`+strings.Repeat("0", 62)+`-d; done`)
			left := keptFiles(t, kept)
			if (o.GoCache.NotKept == "") != c.kept || (len(left) > 0) != c.kept || (o.GoCache.Files > 0) != c.kept || (o.GoCache.Bytes > 0) != c.kept {
				t.Errorf("%+v, left %q", o.GoCache, left)
			}
			if entries, _ := os.ReadDir(kept); !c.kept && len(entries) > 0 {
				t.Errorf("left %v", entries)
			}
			if got := shown(t, o.Changes); got != `file "file" "made\n"` {
				t.Errorf("the run failed too: %s", got)
			}
		})
	}
}

// The parent does not rely on the keeper, which read what a hostile command left.
func TestKeepRefusesTheStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change tree.Change
		files  int
		want   string // in the error, "" for none
	}{
		"an entry":                    {text(entry("2", "d"), "x", false), 2, ""},
		"an executable":               {text(entry("2", "d")+"/tool", "x", true), 2, ""},
		"another name":                {text("11/x", "x", false), 2, "no entry"},
		"another directory":           {text("22/"+strings.Repeat("3", 64)+"-d", "x", false), 2, "no entry"},
		"a hidden file":               {text(entry("2", "d")+"/.tool", "x", true), 2, "no entry"},
		"a symbolic link":             {tree.Change{Path: entry("2", "d"), Kind: tree.Symlink, Target: "/etc"}, 2, "no entry"},
		"a deletion":                  {tree.Change{Path: entry("2", "d"), Kind: tree.Delete}, 2, "no entry"},
		"a file as its own directory": {text(entry("1", "d")+"/tool", "x", true), 2, "file exists"},
		"too many":                    {text(entry("2", "d"), "x", false), 1, "more than 1 files"},
		"too large":                   {text(entry("2", "d"), strings.Repeat("x", 100), false), 2, "more than 50 bytes"},
	} {
		var stream bytes.Buffer
		out := tree.NewEncoder(&stream)
		must(t, errors.Join(out.Encode(text(entry("1", "d"), "x", false)), out.Encode(c.change), out.Close()))
		dir := t.TempDir()
		into, err := os.OpenRoot(dir)
		must(t, err)
		files, size, err := receiveEntries(bufio.NewReader(&stream), into, keepBounds{c.files, 50})
		into.Close()
		if c.want == "" && (err != nil || files != 2 || size != 2 || len(keptFiles(t, dir)) != 2) {
			t.Errorf("%s: %d files, %d bytes, %v", name, files, size, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoCacheAfterACancellation(t *testing.T) {
	t.Parallel()
	kept := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	out := writer(func(p []byte) (int, error) {
		cancel()
		return len(p), nil
	})
	r, err := open1(t).Run(ctx, Spec{Lower: t.TempDir(), KeepCache: kept, Commands: []Command{
		{Argv: []string{"sh", "-c", "mkdir -p /cache/go-build/11; echo x >/cache/go-build/" + entry("1", "d") + "; echo begun; sleep 60"}, Stdout: out},
	}})
	if err == nil || r == nil || r.GoCache.NotKept == "" || len(keptFiles(t, kept)) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Keeping waits for no keeper once the caller has given up.
func TestKeepingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ours, theirs, err := socketPair(unix.SOCK_STREAM)
	must(t, err)
	defer ours.Close()
	defer theirs.Close()
	into, err := os.OpenRoot(t.TempDir())
	must(t, err)
	defer into.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("operator said stop")
	go func() {
		var asked request
		if err := readFrame(bufio.NewReader(theirs), &asked); err != nil || asked.Op != opKeep {
			t.Errorf("%+v, %v", asked, err)
		}
		cancel(cause)
	}()
	s := &session{control: ours, in: bufio.NewReader(ours)}
	if _, _, err := s.keep(ctx, into, keepBounds{1, 1}, collectLeast); !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
}
