package bundle

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"time"

	"remit/proof/reason"
)

// runAll extracts the files into the empty directory dir and runs the commands
// of one gate there, one after the other. All of them run, whatever fails. source
// is the file of the bundle that names them, "" for those of the caller.
func (a *audit) runAll(ctx context.Context, dir, gate, source string, commands []string, code reason.Code) ([]reason.Finding, error) {
	if err := extract(ctx, dir, a.contents.files); err != nil {
		return nil, err
	}
	var found []reason.Finding
	for i, command := range commands {
		result, runErr, err := a.run(ctx, dir, gate, i+1, command)
		if err != nil {
			return nil, err
		}
		result.NamedBy = source
		a.report.Commands = append(a.report.Commands, result)
		switch {
		case runErr != nil:
			found = append(found, reason.Finding{Code: reason.GateUnavailable, Detail: fmt.Sprintf("command %q could not be run: %v", command, runErr)})
		case source != "" && *result.ExitCode == notThere:
			found = append(found, reason.Finding{Code: reason.GateUnavailable, Detail: fmt.Sprintf("command %q, named by the bundle, needs a program that is not here", command)})
		case *result.ExitCode != 0:
			found = append(found, reason.Finding{Code: code, Detail: fmt.Sprintf("command %q exited with %d", command, *result.ExitCode)})
		}
	}
	return found, nil
}

// run runs one command. The first error is the Runner's, the second means that
// the raw logs could not be kept.
func (a *audit) run(ctx context.Context, dir, gate string, number int, command string) (result Command, runErr, err error) {
	stdout, stderr := newCapture(), newCapture()
	if a.opt.LogDir != "" {
		outLog, errLog, err := createLogs(a.opt.LogDir, fmt.Sprintf("%s-%d", gate, number))
		if err != nil {
			return Command{}, nil, err
		}
		stdout.raw, stderr.raw = outLog, errLog
		defer func() { err = errors.Join(err, outLog.Close(), errLog.Close()) }()
	}
	started := time.Now()
	exit, runErr := a.opt.Runner.Run(ctx, dir, command, stdout, stderr)
	result = Command{Gate: gate, Command: command, DurationMS: time.Since(started).Milliseconds()}
	if runErr == nil {
		result.ExitCode = &exit
	}
	result.Stdout, result.StdoutBytes, result.StdoutSHA256, result.StdoutCut = stdout.result()
	result.Stderr, result.StderrBytes, result.StderrSHA256, result.StderrCut = stderr.result()
	return result, runErr, errors.Join(stdout.err, stderr.err)
}

// createLogs opens the two raw logs of a command. A hostile repository may have left links
// where they go: the directory must not be one, and a name that is there
// is replaced, never written through.
func createLogs(dir, name string) (stdout, stderr *os.File, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("raw logs: %w", err)
	}
	if err := RefuseLink(dir); err != nil {
		return nil, nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("raw logs: %w", err)
	}
	defer root.Close()
	create := func(name string) (*os.File, error) {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("raw logs: %w", err)
		}
		f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, fmt.Errorf("raw logs: %w", err)
		}
		return f, nil
	}
	if stdout, err = create(name + ".stdout.log"); err != nil {
		return nil, nil, err
	}
	if stderr, err = create(name + ".stderr.log"); err != nil {
		return nil, nil, errors.Join(err, stdout.Close())
	}
	return stdout, stderr, nil
}

// RefuseLink refuses a path at which something is to be written and a link is: what
// it leads to is not the user's choice. The error is output_exists.
func RefuseLink(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSymlink:
		return nil
	}
	e := reason.Errorf(reason.OutputExists, "this is a link, and what it leads to is not written")
	e.File = path
	return e.WithHint("remove it, or name another place")
}

// capture keeps the first and last half of MaxOutputBytes of a stream, hashes
// all of it, and passes all of it on to the raw log. Commands decide how much
// they print, so memory does not grow with it.
type capture struct {
	head, tail []byte // tail is a ring once it is full
	at         int    // where the ring is written next
	total      int64
	sha        hash.Hash
	raw        io.Writer
	err        error // of the raw log
}

const captureHalf = MaxOutputBytes / 2

func newCapture() *capture { return &capture{sha: sha256.New()} }

// Write never fails: a full disk must not look like a failing command. The
// error of the raw log is reported by run.
func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	c.sha.Write(p)
	if c.raw != nil && c.err == nil {
		_, c.err = c.raw.Write(p)
	}
	k := min(len(p), captureHalf-len(c.head))
	c.head = append(c.head, p[:k]...)
	p = p[k:]
	k = min(len(p), captureHalf-len(c.tail))
	c.tail = append(c.tail, p[:k]...)
	p = p[k:]
	p = p[max(0, len(p)-captureHalf):]
	for len(p) > 0 {
		k := copy(c.tail[c.at:], p)
		c.at = (c.at + k) % captureHalf
		p = p[k:]
	}
	return n, nil
}

// result returns what was kept, with a line at the cut that says so.
func (c *capture) result() (text string, total int64, digest string, cut bool) {
	text = string(c.head)
	if missing := c.total - int64(len(c.head)+len(c.tail)); missing > 0 {
		cut = true
		text += fmt.Sprintf("\n[%d bytes are cut here; %d bytes in all, %s]\n", missing, c.total, digestText(c.sha.Sum(nil)))
	}
	text += string(c.tail[c.at:]) + string(c.tail[:c.at])
	return text, c.total, digestText(c.sha.Sum(nil)), cut
}
