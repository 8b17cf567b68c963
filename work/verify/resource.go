package verify

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"remit/proof/form"
	"remit/work/tree"
	"remit/work/verify/results"
)

// A failure that looks like a missing resource says something about the moment
// and nothing about the code: another program of the same user may have held
// all of it. On the base such a command is run again, alone, and what does not
// fail again is no test that a change can fix.

var resourceShaped = form.Lazy(`(?i)too many open files|no space left on device|resource temporarily unavailable|cannot allocate memory|out of memory|signal: killed|file table overflow|\b(?:EMFILE|ENFILE|ENOSPC|EAGAIN|ENOMEM|EDQUOT)\b|disk quota exceeded`)

// looksStarved says whether the output of a command has words of a missing
// resource.
func looksStarved(streams ...*stream) (bool, error) {
	for _, s := range streams {
		in, err := s.open()
		if err != nil {
			return false, err
		}
		found, err := matchLines(in, resourceShaped())
		_ = in.Close() // it was only read
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// maxTail is how much of the end of each stream a hint is made from.
const maxTail = 4 << 10

// tailOf is the end of the streams.
func tailOf(streams ...*stream) (string, error) {
	var out strings.Builder
	for _, s := range streams {
		text := make([]byte, min(kept(s), maxTail))
		if _, err := s.file.ReadAt(text, kept(s)-int64(len(text))); err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("reading captured output: %w", err)
		}
		out.Write(text)
		out.WriteByte('\n')
	}
	return out.String(), nil
}

// matchLines says whether a line of at most 64 KiB matches.
func matchLines(r io.Reader, pattern *regexp.Regexp) (bool, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if pattern.Match(line) {
			return true, nil
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return false, fmt.Errorf("reading captured output: %w", err)
		}
	}
}

// againAlone runs the base once more where a failed command looks starved, and
// notes the tests that failed once only.
func (p *Plan) againAlone(ctx context.Context, sb Sandbox, r *PhaseResult, laid []tree.Change) error {
	starved := false
	for i := range r.Commands {
		starved = starved || r.Commands[i].starved
	}
	if !starved {
		return nil
	}
	runs, err := p.runAll(ctx, sb, []job{{PhaseBase, TreeBase, 2, laid, commandsOf(p), nil}}, nil)
	if err != nil {
		return err
	}
	r.Runs = append(r.Runs, *runs[0])
	for i := range r.Commands {
		again := &runs[0].Commands[i]
		for id, o := range r.Commands[i].PerTest {
			if o == results.Fail && again.PerTest[id] == results.Pass {
				r.Unstable = append(r.Unstable, id)
			}
		}
		if !r.Commands[i].Passed && again.Passed {
			r.Unstable = append(r.Unstable, r.Commands[i].Command)
		}
	}
	return nil
}
