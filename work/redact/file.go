package redact

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"remit/law/secret"
	"remit/proof/reason"
)

// File looks for what must not leave this machine in a file that is handed on: by its
// name, for the shapes of keys, and for the credentials of the environment, also in
// text of two bytes a character and in zips, down to a depth. It tells nothing of what
// it finds: a name that holds a secret is redacted.
func (s *Secrets) File(name string, content io.Reader) ([]reason.Finding, error) {
	l := &look{s: s}
	if s.scanner.Suspects([]byte(name)) && len(s.find(name, secret.All)) > 0 {
		l.say("its name has a secret in it")
		name = s.Redact(name)
	}
	err := l.file(name, "", content, 0)
	if len(l.what) == 0 {
		return nil, err
	}
	return []reason.Finding{{Code: reason.SecretLeak, Path: name, Detail: strings.Join(l.what, "; ")}}, err
}

// Bounds of one look.
const (
	// maxSaid bounds what is said of one file.
	maxSaid = 5
	// maxArchiveDepth, maxArchive and maxArchiveFiles bound what is unpacked: zips in
	// zips, the bytes of all of them, packed and unpacked, and their files.
	maxArchiveDepth = 4
	maxArchive      = 64 << 20
	maxArchiveFiles = 10_000
	// magicReach is how much may stand before a zip, as the first line of a program does.
	magicReach = 4096
)

// look is one look into a file, and into what is packed in it.
type look struct {
	s            *Secrets
	what         []string
	bytes, files int64 // of archives
}

func (l *look) say(said string) {
	if len(l.what) < maxSaid && !slices.Contains(l.what, said) {
		l.what = append(l.what, said)
	}
}

var zipMagic = []byte("PK\x03\x04")

// file looks into one file; within is where it is packed, "" for the file itself.
func (l *look) file(name, within string, content io.Reader, depth int) error {
	if keeps := secret.FileName(name); keeps != "" {
		l.say("a file of this name keeps " + keeps + within)
	}
	in := bufio.NewReaderSize(content, magicReach)
	head, err := in.Peek(magicReach)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading what is searched for secrets: %w", err)
	}
	if bytes.Contains(head, zipMagic) {
		return l.archive(within, in, depth)
	}
	return l.text(within, in)
}

// text looks into bytes as they stand.
func (l *look) text(within string, content io.Reader) error {
	wide := l.s.scanner.Stream(secret.All, func(f secret.Finding, _ []byte) {
		l.say(hit{Finding: f}.what() + " in text of two bytes a character" + within)
	})
	defer wide.Close()
	return l.s.scanner.Scan(io.TeeReader(content, narrow{wide}), secret.All, func(f secret.Finding, _ []byte) {
		l.say(fmt.Sprintf("%s at byte %d", hit{Finding: f}.what(), f.Offset) + within)
	})
}

// narrow passes text on without its zero bytes: UTF-16 of Latin text becomes that text.
// A block without any has none of it.
type narrow struct{ to io.Writer }

func (n narrow) Write(p []byte) (int, error) {
	if bytes.IndexByte(p, 0) < 0 {
		return len(p), nil
	}
	_, err := n.to.Write(bytes.ReplaceAll(p, []byte{0}, nil))
	return len(p), err
}

// archive looks at what is packed in a zip. One that cannot be looked into is said.
func (l *look) archive(within string, content io.Reader, depth int) error {
	text, err := io.ReadAll(io.LimitReader(content, maxArchive+1))
	if err != nil {
		return fmt.Errorf("reading what is searched for secrets: %w", err)
	}
	if l.bytes += int64(len(text)); depth == maxArchiveDepth || l.bytes > maxArchive {
		l.say("an archive that is too large, or too deep in others, to be looked into" + within)
		return nil
	}
	if err := l.text(within, bytes.NewReader(text)); err != nil {
		return err
	}
	z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return nil //nolint:nilerr // it is no zip, and was searched as it stands
	}
	declared := l.bytes
	for _, f := range z.File {
		declared += int64(min(f.UncompressedSize64, maxArchive+1))
	}
	if declared > maxArchive {
		l.say("an archive that unpacks to too much to be looked into" + within)
		return nil
	}
	for _, f := range z.File {
		if l.files++; l.files > maxArchiveFiles {
			l.say("an archive with too many files to be looked into" + within)
			return nil
		}
		inside := within + ", in " + l.s.Redact(f.Name)
		if len(l.s.find(f.Name, secret.All)) > 0 {
			l.say("a name with a secret in it" + inside)
		}
		packed, err := f.Open()
		if err != nil {
			l.say("a packed file that cannot be read" + inside)
			continue
		}
		bounded := &io.LimitedReader{R: packed, N: maxArchive - l.bytes + 1}
		err = l.file(f.Name, inside, bounded, depth+1)
		l.bytes = maxArchive + 1 - bounded.N
		switch {
		case l.bytes > maxArchive:
			l.say("an archive that unpacks to too much to be looked into" + within)
			return packed.Close()
		case err != nil: // damaged, or encrypted
			l.say("a packed file that cannot be read" + inside)
		}
		if err := packed.Close(); err != nil {
			return err
		}
	}
	return nil
}
