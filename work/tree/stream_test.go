package tree

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"remit/proof/reason"
)

func encode(t testing.TB, changes ...Change) []byte {
	t.Helper()
	var b bytes.Buffer
	e := NewEncoder(&b)
	for _, c := range changes {
		if err := e.Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decodeAll(src []byte) ([]string, error) {
	d := NewDecoder(bufio.NewReader(bytes.NewReader(src)))
	var got []string
	for {
		c, err := d.Next()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		line := string(c.Kind) + " " + c.Path + " " + c.Target + c.Note
		if c.Kind == File {
			r, err := c.Open()
			if err != nil {
				return got, err
			}
			text, err := io.ReadAll(r)
			if err != nil {
				return got, err
			}
			line += string(text)
		}
		got = append(got, line)
	}
}

var sample = []Change{
	{Path: "gone", Kind: Delete},
	{Path: "a\n\xff", Kind: File, Executable: true, Size: 3, Open: content("abc")},
	{Path: "l", Kind: Symlink, Target: "/etc"},
	{Path: "p", Kind: Special, Note: NoteFIFO},
}

// The bytes are a format: they must not change by accident.
func TestStreamBytes(t *testing.T) {
	t.Parallel()
	const want = "remit tree 1\nD\x04goneF\x01\x03a\n\xff\x03abcL\x01l\x04/etcS\x01p\x04fifoE\x04"
	src := encode(t, sample...)
	if string(src) != want {
		t.Errorf("got %q", src)
	}
	got, err := decodeAll(src)
	if want := []string{"delete gone ", "file a\n\xff abc", "symlink l /etc", "special p fifo"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestStreamTorn(t *testing.T) {
	t.Parallel()
	src := encode(t, sample...)
	for n := range src {
		if _, err := decodeAll(src[:n]); err == nil {
			t.Errorf("the first %d of %d bytes pass", n, len(src))
		}
	}
}

func TestStreamRefuses(t *testing.T) {
	t.Parallel()
	huge := binary.AppendUvarint(nil, 1<<62)
	for name, body := range map[string]string{
		"unknown record":     "Q",
		"parent path":        "D\x02..E\x01",
		"absolute path":      "D\x02/aE\x01",
		"empty path":         "D\x00E\x01",
		"dot path":           "D\x03./aE\x01",
		"NUL in path":        "D\x01\x00E\x01",
		"path twice":         "D\x01aD\x01aE\x02",
		"wrong count":        "D\x01aE\x02",
		"unknown flag":       "F\x04\x01a\x00E\x01",
		"huge path":          "D" + string(huge),
		"huge file":          "F\x00\x01a" + string(huge),
		"overlong number":    "D" + strings.Repeat("\xff", 11),
		"deep path":          "D" + string(binary.AppendUvarint(nil, 2*200-1)) + strings.Repeat("a/", 199) + "a" + "E\x01",
		"unknown code":       "X\x03foo\x03bar",
		"failure in the end": "X\x0eresource_limit\x04much",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := decodeAll([]byte(magic + body))
			if err == nil {
				t.Fatalf("passed: %q", got)
			}
			if !errors.Is(err, ErrStream) && reason.CodeOf(err) != reason.ResourceLimit {
				t.Errorf("untyped error %v", err)
			}
		})
	}
	if _, err := decodeAll([]byte("remit tree 2\nE\x00")); !errors.Is(err, ErrStream) {
		t.Errorf("other version: %v", err)
	}
}

func TestStreamContentIsOnceOnly(t *testing.T) {
	t.Parallel()
	d := NewDecoder(bufio.NewReader(bytes.NewReader(encode(t, fileChange("a", "1"), fileChange("b", "2")))))
	first, err := d.Next()
	must(t, err)
	second, err := d.Next() // skips the content of the first
	must(t, err)
	if _, err := first.Open(); err == nil {
		t.Error("the content of an earlier change can still be opened")
	}
	if got := show(t, second); got != `file "b" "2"` {
		t.Error(got)
	}
}

func TestEncoderRefusesShrunkFile(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	e := NewEncoder(&b)
	if err := e.Encode(Change{Path: "a", Kind: File, Size: 5, Open: content("123")}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("shrunk file: %v", err)
	}
}

func TestValidPath(t *testing.T) {
	t.Parallel()
	for p, want := range map[string]bool{
		"a": true, "a/b": true, "...": true, "-rf": true, "a\nb": true, "\xff": true,
		"": false, "/": false, "a/": false, "/a": false, "a//b": false, ".": false, "a/./b": false, "a/..": false,
		strings.Repeat("a", 256): false, strings.Repeat("a/", 2048) + "a": false,
	} {
		if ValidPath(p) != want {
			t.Errorf("%q: %v", p, !want)
		}
	}
}

func TestIsDotGit(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		".git": true, ".GIT": true, ".Git": true, "git~1": true, "GIT~1": true, ".git ": true, ".git.": true, ".git. .": true,
		".git::$INDEX_ALLOCATION": true, ".git:x": true, `.git\x`: true, ".g\u200cit": true, "\ufeff.git": true, ".gi\u206at": true,
		"git": false, ".gitignore": false, ".gitmodules": false, "a.git": false, ".git2": false, "git~2": false, ".github": false, "": false,
	} {
		if IsDotGit(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// Whatever bytes come, the decoder ends, hands out valid distinct paths only,
// and a stream that it takes survives being encoded again.
func FuzzDecoder(f *testing.F) {
	f.Add(encode(f, sample...))
	f.Add(encode(f))
	f.Add([]byte(magic + "X\x0eresource_limit\x04much"))
	f.Add([]byte(magic + "F\x00\x01a\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, src []byte) {
		d := NewDecoder(bufio.NewReader(bytes.NewReader(src)))
		var out bytes.Buffer
		e := NewEncoder(&out)
		seen := map[string]bool{}
		for {
			c, err := d.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return
			}
			if !ValidPath(c.Path) || seen[c.Path] {
				t.Fatalf("path %q", c.Path)
			}
			seen[c.Path] = true
			if err := e.Encode(c); err != nil {
				if errors.Is(err, io.ErrUnexpectedEOF) {
					return
				}
				t.Fatal(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		first, err := decodeAll(src)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeAll(out.Bytes())
		if err != nil || !slices.Equal(first, again) {
			t.Fatalf("%q became %q, %v", first, again, err)
		}
	})
}
