package journal

// Where the tests kill a process, relative to one entry. Only a build with the
// tag crashpoints does it; there the variable REMIT_CRASH_AT names one place,
// as the number of an entry and a word: 17:after.
type crashPlace string

const (
	beforeAppend crashPlace = "before" // nothing of the entry is in the file
	midAppend    crashPlace = "torn"   // half of its line is; in a repair: the new line, and the rest of the torn one
	afterAppend  crashPlace = "after"  // all of it is, and perhaps not durable
	afterSync    crashPlace = "synced" // it is durable
)
