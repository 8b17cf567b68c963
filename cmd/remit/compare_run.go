package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"remit/proof/reason"
	"remit/work/harness"
)

// runLanes runs at most n lanes at a time, in their order, and returns the line
// of each. It always waits for all of them: a lane that is cancelled closes its
// evidence first.
func (a *app) runLanes(ctx context.Context, lanes []*lane, n int, view *laneView) []laneRow {
	rows := make([]laneRow, len(lanes))
	free := make(chan struct{}, n)
	var running sync.WaitGroup
	for i, l := range lanes {
		if l.refused == nil {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				l.refused = notStarted(ctx)
			}
		}
		if l.refused != nil {
			rows[i] = refusedRow(l, l.refused)
			view.ended(l.label, rows[i])
			continue
		}
		l.request.Progress = view.of(l.label)
		running.Go(func() {
			rows[i] = a.runLane(ctx, l, view)
			view.ended(l.label, rows[i])
			<-free
		})
	}
	running.Wait()
	return rows
}

// notStarted is the error of a lane that was cancelled before it began.
func notStarted(ctx context.Context) error {
	return reason.Errorf(reason.Cancelled, "cancelled before it was started: %w", context.Cause(ctx))
}

func (a *app) runLane(ctx context.Context, l *lane, view *laneView) laneRow {
	out, err := harness.Run(ctx, l.request)
	if err != nil {
		if err = refusedByDisk(err, a.home.Dir); reason.CodeOf(err) == "" && ctx.Err() != nil {
			err = notStarted(ctx)
		}
		return refusedRow(l, err)
	}
	if out.NoSandbox != nil {
		view.unconfined(out.NoSandbox)
	}
	row, err := inspected(out.Session)
	if err != nil {
		return refusedRow(l, err)
	}
	row.Lane = l.label
	return row
}

// lanesHere is how many lanes this machine runs at the same time.
func lanesHere(lanes int, memoryMB int64) int {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return fitting(lanes, runtime.GOMAXPROCS(0), memoryMB, 0) // another system: processors are all that is known
	}
	defer f.Close()
	free, err := availableMB(f)
	if err != nil {
		free = 0
	}
	return fitting(lanes, runtime.GOMAXPROCS(0), memoryMB, free)
}

// availableMB reads what can still be used of the memory from /proc/meminfo.
func availableMB(r io.Reader) (int64, error) {
	lines := bufio.NewScanner(io.LimitReader(r, 1<<16))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == "MemAvailable:" && fields[2] == "kB" {
			kB, err := strconv.ParseInt(fields[1], 10, 64)
			return kB >> 10, err
		}
	}
	return 0, fmt.Errorf("looking for MemAvailable: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}
