package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const hostile = "plain\tä\x1b[2J\a\r\u009b31m\u202egnp.exe\xff\U000e0041\n"

const harmlessly = "plain\tä" + `\x1b[2J\x07\x0d\u009b31m\u202egnp.exe\xff\U000e0041` + "\n"

func TestVisible(t *testing.T) {
	t.Parallel()
	for step := 1; step <= len(hostile); step++ { // characters may come in parts
		var got bytes.Buffer
		v := &visible{w: &got}
		for text := hostile; text != ""; {
			n, err := v.Write([]byte(text[:min(step, len(text))]))
			if err != nil || n != min(step, len(text)) {
				t.Fatal(n, err)
			}
			text = text[n:]
		}
		if got.String() != harmlessly {
			t.Errorf("in steps of %d: %q", step, got.String())
		}
	}
	var got bytes.Buffer
	v := &visible{w: &got}
	fmt.Fprint(v, "cut \xe2\x80")
	if err := v.Close(); err != nil || got.String() != `cut \xe2\x80` {
		t.Errorf("%q, %v", got.String(), err)
	}
}

// Nothing of a name is left out where it is shown: two names that differ look different.
func TestNamesAreShownWhole(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a\U000e0041\U000e007fb": `a\U000e0041\U000e007fb`, "\u202egnp": `\u202egnp`, "a\u200bb\u2060\ufeff": `a\u200bb\u2060\ufeff`, "\u3164\u115f\uffa0\u2800": `\u3164\u115f\uffa0\u2800`,
		"a\ufe0f.py": `a\ufe0f.py`, "\u26a0\ufe0f ä": "\u26a0\ufe0f ä", "a\U000e0100": `a\U000e0100`, "\x1b[2J\xff\u009b": `\x1b[2J\xff\u009b`, "\u034f\u00ad": `\u034f\u00ad`, "é \u65e5": "é \u65e5",
	} {
		if got := plain(name); got != want {
			t.Errorf("%q: %s", name, got)
		}
	}
	if got, want := plain("a\tb\nc\r\n"), "a b c "; got != want {
		t.Errorf("%q", got)
	}
	if got, want := plainText("ä\tb\nc\r\n"), "ä\tb\nc\n"; got != want {
		t.Errorf("%q", got)
	}
}

// What a command prints to a terminal cannot drive it, whatever it prints and
// whatever its source: a patch, a table, a document. Other files get every byte.
func TestTerminalIsNotDriven(t *testing.T) {
	t.Parallel()
	master, slave := terminal(t)
	for name, print := range map[string]func(*output) error{
		"text":     func(o *output) error { _, err := o.Write([]byte(hostile)); return err },
		"document": func(o *output) error { return printJSON(o, map[string]string{"patch": hostile}) },
	} {
		o := newOutput(slave)
		if err := print(o); err != nil {
			t.Fatal(err)
		}
		if err := o.close(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(slave, "end")
		got := ""
		for buf := make([]byte, 1024); !strings.HasSuffix(got, "end\r\n"); {
			n, err := master.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got += string(buf[:n])
		}
		if strings.ContainsAny(got, "\x1b\a\u009b\u202e") || strings.Count(got, "\r") != strings.Count(got, "\n") || !strings.Contains(got, "gnp.exe") {
			t.Errorf("%s: the terminal got %q", name, got)
		}
	}
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := newOutput(file).Write([]byte(hostile)); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file.Name()); err != nil || string(text) != hostile {
		t.Errorf("a file got %q, %v", text, err)
	}
}

// terminal makes a pseudo-terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("SKIPPED, no pseudo-terminal here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// A patch of any size is read no longer than someone wants it.
func TestPatchIsReadWhileWanted(t *testing.T) {
	t.Parallel()
	endless := strings.NewReader(strings.Repeat("x", 1<<20))
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("signal: terminated")
	cancel(stop)
	if n, err := io.Copy(io.Discard, &wanted{ctx, io.Discard, endless}); n != 0 || !errors.Is(err, stop) {
		t.Errorf("after the end of the command: %d bytes, %v", n, err)
	}
	gone := &output{}
	gone.unread.Store(true)
	if n, err := io.Copy(io.Discard, &wanted{t.Context(), gone, endless}); n != 0 || err != nil {
		t.Errorf("after the end of the reader: %d bytes, %v", n, err)
	}
	if n, err := io.Copy(io.Discard, &wanted{t.Context(), &output{}, endless}); n != 1<<20 || err != nil {
		t.Errorf("wanted: %d bytes, %v", n, err)
	}
}
