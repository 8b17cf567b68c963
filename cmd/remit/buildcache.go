package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"remit/work/sandbox"
)

// tellCache prints what becomes of the Go build cache: one line each, above a
// live line.
func tellCache(w io.Writer) func(string) {
	clear := ""
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		clear = "\r\x1b[K"
	}
	return func(line string) { fmt.Fprintf(w, "%scache   %s\n", clear, plain(line)) }
}

// fillCache fills the Go build cache before a run that needs it: no time limit
// of the run counts it then. What it cannot know is filled by the first command
// that needs it.
func (a *app) fillCache(ctx context.Context, driver, repo string, lines ...string) error {
	if driver == sandbox.DriverNone || !sandbox.CompilesGo(strings.Join(lines, "\n"), repo) {
		return nil
	}
	cache := a.home.BuildCache()
	cache.Tell = tellCache(os.Stderr)
	if err := cache.Fill(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		cache.Tell(err.Error())
	}
	return nil
}

// examineCache is the line of remit doctor about the Go build cache.
func (a *app) examineCache() checkup {
	s := a.home.BuildCache().State()
	c := checkup{Check: "build cache", Status: fine, Detail: fmt.Sprintf("%s, %d MiB", s.Dir, s.Bytes>>20)}
	switch {
	case s.Go == "":
		c.Detail += ": there is no Go to fill it for"
	case s.Filled:
		c.Detail += ": filled for " + s.Go
	default:
		c.Detail += ": not filled for " + s.Go + ", the first command that compiles Go in the sandbox does that, once, in about a minute"
	}
	if s.Old != "" && s.Filled {
		c.Detail += "; " + s.Old + " is the place of earlier versions, no longer used: remove it"
	}
	return c
}
