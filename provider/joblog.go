package provider

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"remit/nexus/api"
	"remit/proof/canon"
)

const (
	// maxLog is what a run tells people who watch; all of it is in the bundle.
	maxLog = 1 << 20
	// logChunk is the most that the authority takes at once.
	logChunk = 64 << 10
	// logPause is how long lines are gathered before they are sent.
	logPause = time.Second
	// logClosing is how long a run that has ended waits for its last lines.
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
		late := time.AfterFunc(logClosing, abandon)
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
