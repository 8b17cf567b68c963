package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/term"
)

// progress shows a run on stderr: a live line on a terminal, plain lines
// elsewhere. Text from the agent is shown without its control characters, so
// that it cannot drive the terminal.
type progress struct {
	w     io.Writer
	live  bool
	width int
	quiet bool

	mu      sync.Mutex
	began   map[string]time.Time
	current string
	last    string
	stop    chan struct{}
	done    chan struct{}
}

// refresh is how often the elapsed time of the live line moves.
const refresh = 200 * time.Millisecond

func newProgress(f *os.File, quiet bool) *progress {
	p := &progress{w: f, quiet: quiet, began: map[string]time.Time{}, stop: make(chan struct{}), done: make(chan struct{})}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && !quiet && os.Getenv("TERM") != "dumb" {
		p.live, p.width = true, width
	}
	go p.tick()
	return p
}

func (p *progress) tick() {
	defer close(p.done)
	if !p.live {
		return
	}
	t := time.NewTicker(refresh)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-t.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

// close ends the live line.
func (p *progress) close() {
	close(p.stop)
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

// Step shows that a step began or ended.
func (p *progress) Step(name, status, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet {
		return
	}
	if status == "started" {
		p.began[name], p.current, p.last = time.Now(), name, ""
		p.draw()
		if !p.live {
			fmt.Fprintf(p.w, "begin   %s\n", name)
		}
		return
	}
	p.erase()
	took := ""
	if t, ok := p.began[name]; ok {
		took = fmt.Sprintf(" (%s)", time.Since(t).Round(time.Millisecond))
		delete(p.began, name)
	}
	if p.current == name {
		p.current = ""
	}
	line := fmt.Sprintf("%s %s", mark(status), name)
	if detail != "" {
		line += ": " + plain(detail)
	}
	fmt.Fprintln(p.w, line+took)
}

// Output shows the last line that something printed.
func (p *progress) Output(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet {
		return
	}
	p.last = plain(line)
	if !p.live {
		fmt.Fprintf(p.w, "  | %s\n", p.last)
	}
}

func (p *progress) draw() {
	if !p.live || p.current == "" {
		return
	}
	line := fmt.Sprintf("· %s %s", p.current, time.Since(p.began[p.current]).Round(100*time.Millisecond))
	if p.last != "" {
		line += "  " + p.last
	}
	if runes := []rune(line); len(runes) >= p.width {
		line = string(runes[:max(0, p.width-1)])
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", line)
}

func (p *progress) erase() {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func mark(status string) string {
	switch status {
	case "completed", "pass":
		return "ok     "
	case "denied", "blocked":
		return "blocked"
	case "failed", "fail":
		return "FAILED "
	}
	return "-      "
}

// plainText is plain for a text of several lines.
func plainText(s string) string {
	return strings.Map(func(c rune) rune {
		if c != '\n' && c != '\t' && !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, s)
}

// plain drops what could move a cursor or hide text, and line ends: what it is
// given stays on its line.
func plain(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '\t' {
			return ' '
		}
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, s)
}
