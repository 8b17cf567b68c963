package provider

import (
	"bytes"
	"context"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"remit/nexus/api"
	"remit/proof/canon"
	"remit/work/sandbox"
)

const (
	// maxLog is what a run tells people who watch; all of it is in the bundle.
	maxLog = 1 << 20
	// logChunk is the most that the authority takes at once.
	logChunk = 64 << 10
	// logPause is how long lines are gathered before they are sent.
	logPause = time.Second
	// logClosing is how long a run that has ended waits for its last lines to be taken.
	logClosing = 5 * time.Second
)

// jobLog passes on what a run does while it goes on. It is for people who
// watch, and nothing depends on it: when the authority does not take a piece,
// no more is sent. It is a harness.Progress.
type jobLog struct {
	d     *Daemon
	jobID string
	fence int64

	mu      sync.Mutex
	waiting strings.Builder
	written int // bytes ever put into waiting
	sent    int64
}

// openLog begins the log of a leased job. close sends the rest of it.
func (d *Daemon) openLog(ctx context.Context, l api.Lease) (log *jobLog, closeLog func()) {
	log = &jobLog{d: d, jobID: l.Job.JobID, fence: l.Fence}
	sending, abandon := context.WithCancel(ctx)
	closing, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		log.follow(sending, closing)
	}()
	return log, func() {
		late := time.AfterFunc(d.logClosing, abandon)
		defer late.Stop()
		defer abandon()
		close(closing)
		<-ended
	}
}

// Step implements harness.Progress. The detail is left out: it is for a person
// at this machine, and may tell how the machine is laid out.
func (l *jobLog) Step(name, status, _ string) { l.add(name + " " + status) }

// Output implements harness.Progress.
func (l *jobLog) Output(line string) { l.add("| " + line) }

func (l *jobLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written > maxLog {
		return // before any work: an engine may print millions of lines
	}
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' {
			return -1 // it would act on the terminal of who watches
		}
		return r
	}, strings.ToValidUTF8(line, "\uFFFD")) + "\n"
	if l.written += len(line); l.written > maxLog {
		line = "… the rest is in the bundle\n"
	}
	l.waiting.WriteString(line)
}

// follow sends what there is, now and then, and at last what is left.
func (l *jobLog) follow(ctx context.Context, closing <-chan struct{}) {
	pause := time.NewTicker(logPause)
	defer pause.Stop()
	for open := true; open && ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-closing:
			open = false
		case <-pause.C:
		}
		if !l.send(ctx) {
			return
		}
	}
}

// send hands over what waits, and reports whether it was taken.
func (l *jobLog) send(ctx context.Context) bool {
	l.mu.Lock()
	text := l.waiting.String()
	l.waiting.Reset()
	l.mu.Unlock()
	for text != "" {
		n := min(len(text), logChunk)
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		step := fmt.Sprintf("log %d", l.sent)
		_, err := api.AppendLog.Do(ctx, l.d.client, canon.Digest(fmt.Appendf(nil, "%s\n%d\n%s", l.jobID, l.fence, step)), l.jobID,
			api.LogRequest{Fence: l.fence, Stream: api.LogRequestStreamSystem, Offset: l.sent, Text: text[:n]})
		if err != nil {
			l.giveUp()
			if ctx.Err() == nil {
				l.d.log.Info("the log of a job is not taken", "job", l.jobID, "error", err)
			}
			return false
		}
		l.sent += int64(n)
		text = text[n:]
	}
	return true
}

// giveUp has nothing sent any more: what comes now would leave a gap.
func (l *jobLog) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting.Reset()
	l.written = maxLog + 1
}

// maxPreview bounds what a response shows of a stream, in bytes.
const maxPreview = 2048

// stream is one output of one command: all of it on disk, hashed, and its
// beginning for the preview.
type stream struct {
	file  *os.File
	hash  hash.Hash
	head  bytes.Buffer
	bytes int64
	note  string // of the daemon, at its end
	err   error
}

// Write implements io.Writer.
func (s *stream) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.file.Write(b)
	s.hash.Write(b[:n])
	s.bytes += int64(n)
	if room := maxPreview - s.head.Len(); room > 0 {
		s.head.Write(b[:min(n, room)])
	}
	s.err = err
	return n, err
}

// digest is the hash of everything written.
func (s *stream) digest() string { return canon.DigestSum(s.hash) }

// explain ends a stream with a line of the daemon, which a preview always shows.
func (s *stream) explain(line string) {
	s.note = "remit: " + line + "\n"
	_, _ = io.WriteString(s, s.note) // a failure stays in s.err
}

// preview is nil for an empty stream. It is cut at a rune boundary; what is no
// text is shown as such.
func (s *stream) preview() *string {
	b, end := s.head.Bytes(), ""
	if len(b) == 0 {
		return nil
	}
	if !bytes.HasSuffix(b, []byte(s.note)) {
		end = "\n" + s.note
		b = b[:min(len(b), maxPreview-len(end))]
	}
	for i := 0; i < utf8.UTFMax-1 && len(b) > 0; i++ {
		if r, size := utf8.DecodeLastRune(b); r != utf8.RuneError || size != 1 {
			break
		}
		b = b[:len(b)-1]
	}
	text := string(bytes.ToValidUTF8(b, []byte("\uFFFD"))) + end
	return &text
}

// killedFor says why a command was ended from outside, for the reader of its
// output: an exit code of 137 does not. last is whether no other command ran after
// it. "" when there is nothing to say; that the time was up the response says.
func killedFor(c sandbox.CommandResult, result *sandbox.Result, l sandbox.Limits, last bool) string {
	switch {
	case c.OutputExceeded:
		return fmt.Sprintf("the command was killed, since it printed more than %d MiB", sandbox.DefaultOutputBytes>>20)
	case result.OOMKilled && last && c.ExitCode != 0 && !c.TimedOut:
		return fmt.Sprintf("the kernel killed something for lack of memory: the job has %d MB, and %d MB for what it writes", l.MemoryMB,
			l.DiskMB)
	}
	return ""
}
