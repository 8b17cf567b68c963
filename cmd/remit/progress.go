package main

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
)

// progress shows a run on stderr: a live line on a terminal, plain lines
// elsewhere. Text from the agent is shown without its control characters, so
// that it cannot drive the terminal.
type progress struct {
	liveLine

	began   map[string]time.Time
	current string
	last    string
}

func newProgress(f *os.File) *progress {
	p := &progress{began: map[string]time.Time{}}
	p.show(f, p.now)
	return p
}

// Step shows that a step began or ended.
func (p *progress) Step(name, status, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
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
	p.last = plain(line)
	if !p.live {
		fmt.Fprintf(p.w, "  | %s\n", p.last)
	}
}

// now is the step that goes on, and what was printed last.
func (p *progress) now() string {
	if p.current == "" {
		return ""
	}
	line := fmt.Sprintf("%s %s", p.current, time.Since(p.began[p.current]).Round(100*time.Millisecond))
	if p.last != "" {
		line += "  " + p.last
	}
	return line
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
