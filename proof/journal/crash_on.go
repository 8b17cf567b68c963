//go:build crashpoints

package journal

import (
	"fmt"
	"os"
)

var crashAt = os.Getenv("REMIT_CRASH_AT")

// crash kills this process with SIGKILL when the place is the one that was
// asked for. With the file and a line, half of the line is written before. A
// sync makes durable all entries up to the given one.
func crash(place crashPlace, entry int64, file storage, line []byte) {
	if crashAt == "" {
		return
	}
	var at int64
	var wanted crashPlace
	if _, err := fmt.Sscanf(crashAt, "%d:%s", &at, &wanted); err != nil {
		panic("REMIT_CRASH_AT is not NUMBER:PLACE: " + crashAt)
	}
	if place == beforeAppend && wanted == midAppend && file != nil && at == entry {
		if _, err := file.Write(line[:len(line)/2]); err != nil {
			panic(err)
		}
		place = midAppend
	}
	if place != wanted || place == afterSync && entry < at || place != afterSync && entry != at {
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
