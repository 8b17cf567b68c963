package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// liveLine is the last line of a terminal, drawn anew until it is closed. On
// what is no terminal it is never drawn.
type liveLine struct {
	w     io.Writer
	live  bool
	width int
	text  func() string // what it says now, "" for nothing; called under mu

	mu   sync.Mutex
	stop chan struct{}
	done chan struct{}
}

// refresh is how often the elapsed time of the live line moves.
const refresh = 200 * time.Millisecond

// show begins the line.
func (l *liveLine) show(f *os.File, text func() string) {
	l.w, l.text, l.stop, l.done = f, text, make(chan struct{}), make(chan struct{})
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && os.Getenv("TERM") != "dumb" {
		l.live, l.width = true, cmp.Or(width, 80) // some terminals do not tell
	}
	go l.tick()
}

func (l *liveLine) tick() {
	defer close(l.done)
	if !l.live {
		return
	}
	t := time.NewTicker(refresh)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-t.C:
			l.mu.Lock()
			l.draw()
			l.mu.Unlock()
		}
	}
}

// close ends the line.
func (l *liveLine) close() {
	close(l.stop)
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
}

func (l *liveLine) draw() {
	if !l.live {
		return
	}
	text := l.text()
	if text == "" {
		return
	}
	line := "· " + text
	if runes := []rune(line); len(runes) >= l.width {
		line = string(runes[:max(0, l.width-1)])
	}
	fmt.Fprintf(l.w, "\r\x1b[K%s", line)
}

func (l *liveLine) erase() {
	if l.live {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}
