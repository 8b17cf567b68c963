package main

import (
	"cmp"
	"slices"
	"time"

	"remit/law/ladder"
	"remit/work/sandbox"
)

// comparisonSchema names the JSON document of remit compare.
const comparisonSchema = "remit.comparison.v1"

// comparison is the JSON document of remit compare.
type comparison struct {
	Schema         string `json:"schema"`
	TaskID         string `json:"task_id"` // this and the next three are "" where sessions differ in them
	Title          string `json:"title"`
	ContractSHA256 string `json:"contract_sha256"`
	BaselineCommit string `json:"baseline_commit"`
	Parallel       int    `json:"parallel,omitempty"` // lanes that ran at the same time at most

	Comparable  bool         `json:"comparable"`
	Differences []difference `json:"differences"`
	Identical   [][]string   `json:"identical_patches"` // lanes whose changes are byte for byte the same
	// Dimensions say what each session lacks of what the others have. They rank nothing.
	Dimensions []ladder.Dimension `json:"dimensions"`
	ExitCode   int                `json:"exit_code"`
	Lanes      []laneRow          `json:"lanes"`
}

// difference is something that figures depend on and that was not the same.
type difference struct {
	Field  string      `json:"field"`
	Values []laneValue `json:"values"`
}

type laneValue struct {
	Lane  string `json:"lane"`
	Value string `json:"value"`
}

// basisFields are what figures depend on beside the engine and its model.
func basisFields() []string { return []string{"task", "base", "remit", "host", "sandbox"} }

// conclude draws from the lanes what they say together.
func (c *comparison) conclude(order string) {
	c.ExitCode = exitOf(c.Lanes)
	c.Differences = differences(c.Lanes)
	c.Comparable = len(c.Differences) == 0
	c.Identical = identical(c.Lanes)
	c.Dimensions = dimensionsOf(c.Lanes)
	for to, of := range map[*string]func(laneRow) string{
		&c.TaskID: func(r laneRow) string { return r.taskID }, &c.Title: func(r laneRow) string { return r.title },
		&c.ContractSHA256: func(r laneRow) string { return r.ContractSHA256 },
		&c.BaselineCommit: func(r laneRow) string { return r.BaselineCommit },
	} {
		if said := agreed(c.Lanes, of); len(said) > 0 {
			*to = said[0]
			if len(said) > 1 {
				*to = ""
			}
		}
	}
	sortRows(c.Lanes, order)
}

// dimensionsOf holds the sessions of the lanes against each other.
func dimensionsOf(rows []laneRow) []ladder.Dimension {
	shown := make([]ladder.Shown, len(rows))
	for i, r := range rows {
		shown[i] = r.shown
		shown[i].Lane = r.Lane
	}
	return ladder.Dimensions(shown)
}

// agreed are the distinct values that the sessions of lanes have, in their order.
func agreed(rows []laneRow, of func(laneRow) string) []string {
	var out []string
	for _, r := range rows {
		if value := of(r); value != "" && r.SessionID != "" && !slices.Contains(out, value) {
			out = append(out, value)
		}
	}
	return out
}

// exitOf is 0 when all passed, 2 when one failed, else 3 when one was blocked;
// 1 says that a lane ended in an error which nothing can be concluded from.
func exitOf(rows []laneRow) int {
	worst := 0
	for _, r := range rows {
		worst = worstExit(worst, r.ExitCode)
	}
	return worst
}

// worstExit is the worse of two exit codes: an error, then a failure, then what was
// blocked.
func worstExit(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// differences lists in what the sessions of lanes are no measure of each other.
func differences(rows []laneRow) []difference {
	out := []difference{}
	for _, field := range basisFields() {
		d := difference{Field: field}
		alike := true
		for _, r := range rows {
			value := r.basis[field]
			if value == "" {
				continue // the run did not get as far as to tell
			}
			d.Values = append(d.Values, laneValue{r.Lane, value})
			alike = alike && value == d.Values[0].Value
		}
		if !alike {
			out = append(out, d)
		}
	}
	return out
}

// identical groups the lanes that made the same change. That several changed
// their lines say nothing.
func identical(rows []laneRow) [][]string {
	out := [][]string{}
	place := map[string]int{}
	var groups [][]string
	for _, r := range rows {
		if r.PatchSHA256 == "" || r.Delta.Files == 0 {
			continue
		}
		i, seen := place[r.PatchSHA256]
		if !seen {
			i = len(groups)
			place[r.PatchSHA256], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], r.Lane)
	}
	for _, g := range groups {
		if len(g) > 1 {
			out = append(out, g)
		}
	}
	return out
}

// The orders of the lines. None of them is a judgement.
const (
	orderGiven = "given"
	orderCost  = "cost"
	orderTime  = "time"
	orderDelta = "delta"
)

func orders() []string { return []string{orderGiven, orderCost, orderTime, orderDelta} }

// sortRows puts the least first, and those without the figure last.
func sortRows(rows []laneRow, order string) {
	figure := map[string]func(laneRow) (int64, bool){
		orderCost: func(r laneRow) (int64, bool) {
			if r.Usage == nil {
				return 0, r.SessionID != "" // it ran, and sent no request
			}
			return r.Usage.CostMicroUSD, r.Usage.CostKnown
		},
		orderTime: func(r laneRow) (int64, bool) {
			if r.DurationMS == nil {
				return 0, false
			}
			return *r.DurationMS, true
		},
		orderDelta: func(r laneRow) (int64, bool) { return int64(r.Delta.Added + r.Delta.Removed), r.PatchSHA256 != "" },
	}[order]
	if figure == nil {
		return
	}
	slices.SortStableFunc(rows, func(a, b laneRow) int {
		x, hasX := figure(a)
		y, hasY := figure(b)
		switch {
		case hasX && !hasY:
			return -1
		case hasY && !hasX:
			return 1
		}
		return cmp.Compare(x, y)
	})
}

// millisBetween is the time from one stamp of a journal to another.
func millisBetween(from, to string) int64 {
	began, err1 := time.Parse(time.RFC3339Nano, from)
	ended, err2 := time.Parse(time.RFC3339Nano, to)
	if err1 != nil || err2 != nil {
		return 0
	}
	return max(0, ended.Sub(began).Milliseconds())
}

// fitting is how many lanes this machine runs at the same time: one a
// processor, as long as each could use all the memory that its contract gives.
func fitting(lanes, processors int, memoryMB, freeMB int64) int {
	if memoryMB == 0 {
		memoryMB = sandbox.DefaultMemoryMB
	}
	n := min(lanes, processors)
	if freeMB > 0 {
		n = min(n, int(freeMB/memoryMB))
	}
	return max(n, 1)
}
