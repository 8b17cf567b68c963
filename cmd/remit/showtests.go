package main

import (
	"fmt"
	"io"

	"remit/proof/evidence"
)

// shownUnobserved bounds the parts of a change that are listed on a terminal.
const shownUnobserved = 10

// printTests says what the verification found out about its own tests, where it
// looked.
func printTests(w io.Writer, rep *evidence.Report) {
	if rep.Control == nil {
		return
	}
	fmt.Fprintf(w, "  control   %s\n  new tests %s\n", plain(rep.Control.Sentence()), plain(rep.NewTests.Sentence()))
	fmt.Fprintf(w, "  unnoticed %s: parts of the change that no test notices\n", plain(rep.Observation.Sentence()))
	if rep.Observation != nil {
		for i, h := range rep.Observation.Unobserved {
			if i == shownUnobserved {
				fmt.Fprintf(w, "            … and %d more\n", len(rep.Observation.Unobserved)-i)
				break
			}
			fmt.Fprintf(w, "            %s\n", plain(h.Place()))
		}
	}
	for i, name := range rep.UntrackedTests {
		if i == shownUnobserved {
			fmt.Fprintf(w, "            … and %d more\n", len(rep.UntrackedTests)-i)
			break
		}
		fmt.Fprintf(w, "  left out  %s: no commit has it\n", plain(name))
	}
}
