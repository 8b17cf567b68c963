// Package keycommand asks a program of the user's for a credential: a password
// manager, a cloud's command line.
//
// The words are split here and never given to a shell. The program runs outside
// of every sandbox, as the user and with the user's environment, since that is
// where its own login is; so only the user may name it, never a repository's
// policy. It is started in the user's home: interpreters load modules, and tools
// settings, from the current directory, and that may be a repository that no one
// has read yet. What it prints on stdout is the credential. Nothing of that, or of
// what it says on stderr, appears in an error or anywhere else; programs of this
// kind repeat what they were about to say when they fail.
//
// Failures: a line that cannot be split ([Split]); a program that cannot be
// started, fails, prints more than a credential has, or takes longer than
// [Patience] ([Run]).
package keycommand

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// Patience is how long a program may take: the user may have to touch a key.
	Patience = time.Minute
	// MaxOutput is more than any credential has.
	MaxOutput = 16 << 10
	maxWords  = 64
	// lastWords is how long its output is waited for when it is dead: what it
	// started may hold on to it.
	lastWords = time.Second
)

// ErrTooLong says that a program printed more than a credential has.
var ErrTooLong = errors.New("it printed more than a credential has")

// Run starts the program and returns what it printed on stdout.
func Run(ctx context.Context, argv []string) ([]byte, error) { return run(ctx, argv, Patience) }

func run(ctx context.Context, argv []string, patience time.Duration) ([]byte, error) {
	if len(argv) == 0 {
		return nil, errors.New("no program")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it took longer than %s", patience))
	defer cancel()
	program, err := located(argv[0])
	if err != nil {
		return nil, err
	}
	out := &short{limit: MaxOutput}
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay, cmd.Dir = out, io.Discard, lastWords, home()
	err = cmd.Run()
	switch {
	case out.over:
		return nil, ErrTooLong
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, errors.New("it could not be started, or failed") // the cause may quote it
	}
	return out.b.Bytes(), nil
}

// located is the program that a word names. A path means what it means where the
// user stands, and not where the program is started.
func located(word string) (string, error) {
	if !strings.ContainsRune(word, filepath.Separator) {
		return word, nil
	}
	file, err := filepath.Abs(word)
	if err != nil {
		return "", errors.New("the current directory is not there")
	}
	return file, nil
}

// home is where the user's programs are started.
func home() string {
	if dir, err := os.UserHomeDir(); err == nil && filepath.IsAbs(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return string(filepath.Separator)
}

// short keeps a little and refuses more.
type short struct {
	b     bytes.Buffer
	limit int
	over  bool
}

func (s *short) Write(p []byte) (int, error) {
	if s.b.Len()+len(p) > s.limit {
		s.over = true
		return 0, ErrTooLong
	}
	return s.b.Write(p)
}

// Split cuts a line into words at blanks. What stands in single or double
// quotes is one word, as it is; nothing else has a meaning: no backslash, no
// variable, no glob.
func Split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	quote, open := rune(0), false
	for _, c := range line {
		switch {
		case c == 0:
			return nil, errors.New("a NUL character")
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, open = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if open {
				words, open = append(words, word.String()), false
				word.Reset()
			}
		default:
			open = true
			word.WriteRune(c)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c that is not closed", quote)
	}
	if open {
		words = append(words, word.String())
	}
	switch {
	case len(words) == 0 || words[0] == "":
		return nil, errors.New("no program")
	case len(words) > maxWords:
		return nil, fmt.Errorf("more than %d words", maxWords)
	}
	return words, nil
}
