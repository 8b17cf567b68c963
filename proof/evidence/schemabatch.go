package evidence

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"remit/proof/reason"
)

const (
	// batchLines and batchBytes bound what is held of a file at once.
	batchLines = 1024
	batchBytes = 8 << 20
)

// batch is some lines of one JSONL file. Each line is checked by itself, so a
// batch is checked on all processors; its findings keep the order of the file.
type batch struct {
	c     *schemaCheck
	d     document
	lines [][]byte
	bytes int
	read  int // lines of the file so far
	done  bool
}

// add takes a copy of a line.
func (b *batch) add(line []byte) {
	b.lines = append(b.lines, bytes.Clone(line))
	b.bytes += len(line)
	b.read++
}

func (b *batch) full() bool { return len(b.lines) == batchLines || b.bytes >= batchBytes }

// check checks the lines of the batch and empties it. It returns false when
// the rest of the file is not worth reading: the audit was cancelled, or there
// are limit findings in all.
func (b *batch) check(limit int) bool {
	if b.done || b.c.cancelled(b.d.file) {
		b.done = true
		return false
	}
	found := make([][]reason.Finding, len(b.lines))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(b.lines)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(b.lines); i = int(next.Add(1)) - 1 {
				line := b.read - len(b.lines) + i + 1
				checkText(b.d.schema, b.lines[i], func(code reason.Code, detail string) {
					found[i] = append(found[i], reason.Finding{Code: code, Path: b.d.file, Line: line, Detail: detail})
				})
			}
		})
	}
	workers.Wait()
	b.lines, b.bytes = b.lines[:0], 0
	for _, f := range found {
		b.c.found = append(b.c.found, f...)
	}
	if over := len(b.c.found) - limit; over > 0 {
		b.c.found = b.c.found[:limit]
		b.c.add(reason.SchemaInvalid, b.d.file, 0, fmt.Sprintf("has more defects; only the first %d are listed", maxFileFindings))
		b.done = true
	}
	return !b.done
}
