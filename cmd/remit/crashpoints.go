//go:build crashpoints

package main

import (
	"fmt"
	"io"
	"os"

	"remit/proof/journal"
)

// crashAt names one place in the journal, as the number of an entry and a word: 17:after.
var crashAt = os.Getenv("REMIT_CRASH_AT")

// This file is in a build for tests only. It ends the process with SIGKILL when the place
// is reached that crashAt names.
func init() {
	if crashAt == "" {
		return
	}
	var at int64
	var wanted journal.Place
	if _, err := fmt.Sscanf(crashAt, "%d:%s", &at, &wanted); err != nil {
		panic("REMIT_CRASH_AT is not NUMBER:PLACE: " + crashAt)
	}
	journal.Reached = func(place journal.Place, entry int64, file io.Writer, line []byte) {
		if place == journal.BeforeAppend && wanted == journal.MidAppend && file != nil && at == entry {
			if _, err := file.Write(line[:len(line)/2]); err != nil {
				panic(err)
			}
			place = journal.MidAppend
		}
		// A sync makes durable all entries up to the given one.
		if place != wanted || place == journal.AfterSync && entry < at || place != journal.AfterSync && entry != at {
			return
		}
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			panic(err)
		}
		select {} // the signal is on its way
	}
}
