package tree

import (
	"cmp"

	"remit/proof/reason"
)

// The bounds on one tree. They are far above an honest change and low enough
// that a hostile one costs seconds, not the machine.
const (
	MaxDepth      = 128       // directories below each other; each costs an open descriptor or three
	MaxEntries    = 400_000   // entries looked at
	MaxFileBytes  = 256 << 20 // content of one file; larger ones are special
	MaxTotalBytes = 2 << 30   // content of all changed files
	MaxPathBytes  = 4096      // PATH_MAX
	maxName       = 255       // NAME_MAX
	maxTarget     = 4096      // a link text is at most PATH_MAX too
	maxNote       = 64
	maxMessage    = 8192
)

// budget is what is left of the bounds during one walk.
type budget struct {
	entries int
	bytes   int64
	whole   int64 // bytes at the beginning
}

func newBudget() *budget { return budgetOf(0) }

// budgetOf is a budget with another bound on the bytes; 0 is MaxTotalBytes.
func budgetOf(bytes int64) *budget {
	bytes = cmp.Or(bytes, MaxTotalBytes)
	return &budget{entries: MaxEntries, bytes: bytes, whole: bytes}
}

func (b *budget) entry() error {
	if b.entries--; b.entries < 0 {
		return reason.Errorf(reason.ResourceLimit, "the tree has more than %d entries", MaxEntries)
	}
	return nil
}

func (b *budget) content(n int64) error {
	if b.bytes -= n; b.bytes < 0 {
		return reason.Errorf(reason.ResourceLimit, "the changed files hold more than %d bytes", b.whole)
	}
	return nil
}
