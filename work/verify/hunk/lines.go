package hunk

import (
	"bytes"
	"cmp"
	"slices"
)

// edit replaces lines [a0,a1) of the base by lines [b0,b1) of the patched file.
type edit struct{ a0, a1, b0, b1 int }

// Bounds of a comparison. A block that is beyond them is one edit, which is a
// true difference and not the smallest one.
const (
	maxDepth = 32
	maxCells = 1 << 22
)

// apart is how many unchanged lines keep two edits apart: with one line between
// them they are one hunk. With more, code that no test notices could stand in the
// hunk of a fix that the tests notice.
const apart = 2

// splitLines cuts a text behind each newline. Joined, the lines are the text.
func splitLines(text []byte) [][]byte {
	return slices.DeleteFunc(bytes.SplitAfter(text, []byte("\n")), func(line []byte) bool { return len(line) == 0 })
}

// compare returns the edits that turn a into b, in order, those with fewer than
// apart unchanged lines between them as one.
func compare(a, b [][]byte) []edit {
	numbers := make(map[string]int32)
	number := func(lines [][]byte) []int32 {
		ids := make([]int32, len(lines))
		for i, line := range lines {
			id, known := numbers[string(line)]
			if !known {
				id = int32(len(numbers))
				numbers[string(line)] = id
			}
			ids[i] = id
		}
		return ids
	}
	c := comparer{a: number(a), b: number(b)}
	c.block(edit{0, len(a), 0, len(b)}, 0)
	var joined []edit
	for _, e := range c.edits {
		if n := len(joined); n > 0 && e.a0-joined[n-1].a1 < apart {
			joined[n-1].a1, joined[n-1].b1 = e.a1, e.b1
		} else {
			joined = append(joined, e)
		}
	}
	return joined
}

type comparer struct {
	a, b  []int32
	edits []edit
}

// block compares a part of the two: between the lines that both have once
// (patience), and where there are none by their longest common subsequence.
func (c *comparer) block(e edit, depth int) {
	for e.a0 < e.a1 && e.b0 < e.b1 && c.a[e.a0] == c.b[e.b0] {
		e.a0, e.b0 = e.a0+1, e.b0+1
	}
	for e.a0 < e.a1 && e.b0 < e.b1 && c.a[e.a1-1] == c.b[e.b1-1] {
		e.a1, e.b1 = e.a1-1, e.b1-1
	}
	if e.a0 == e.a1 && e.b0 == e.b1 {
		return
	}
	var anchors []pair
	if e.a0 < e.a1 && e.b0 < e.b1 {
		if depth < maxDepth {
			anchors = c.anchors(e)
		}
		if len(anchors) == 0 && (e.a1-e.a0)*(e.b1-e.b0) <= maxCells {
			anchors, depth = c.common(e), maxDepth
		}
	}
	if len(anchors) == 0 {
		c.edits = append(c.edits, e)
		return
	}
	for _, p := range append(anchors, pair{e.a1, e.b1}) {
		c.block(edit{e.a0, p.a, e.b0, p.b}, depth+1)
		e.a0, e.b0 = p.a+1, p.b+1
	}
}

// pair is a line that both have.
type pair struct{ a, b int }

// anchors are the lines that stand once in both parts, as many as are in the
// same order in both.
func (c *comparer) anchors(e edit) []pair {
	type seen struct{ inA, inB, a, b int }
	count := make(map[int32]*seen)
	for i := e.a0; i < e.a1; i++ {
		s := count[c.a[i]]
		if s == nil {
			s = new(seen)
			count[c.a[i]] = s
		}
		s.inA, s.a = s.inA+1, i
	}
	for i := e.b0; i < e.b1; i++ {
		if s := count[c.b[i]]; s != nil {
			s.inB, s.b = s.inB+1, i
		}
	}
	var pairs []pair
	for _, s := range count {
		if s.inA == 1 && s.inB == 1 {
			pairs = append(pairs, pair{s.a, s.b})
		}
	}
	slices.SortFunc(pairs, func(x, y pair) int { return cmp.Compare(x.a, y.a) })
	return increasing(pairs)
}

// increasing is the longest part of pairs, which are in order of a, that is in
// order of b as well.
func increasing(pairs []pair) []pair {
	var tails []int // places in pairs, by the length that they end
	before := make([]int, len(pairs))
	for i, p := range pairs {
		at, _ := slices.BinarySearchFunc(tails, p.b, func(t, b int) int { return cmp.Compare(pairs[t].b, b) })
		before[i] = -1
		if at > 0 {
			before[i] = tails[at-1]
		}
		if at == len(tails) {
			tails = append(tails, i)
		} else {
			tails[at] = i
		}
	}
	var longest []pair
	if len(tails) > 0 {
		for i := tails[len(tails)-1]; i >= 0; i = before[i] {
			longest = append(longest, pairs[i])
		}
	}
	slices.Reverse(longest)
	return longest
}

// common is a longest common subsequence of two small parts.
func (c *comparer) common(e edit) []pair {
	n, m := e.a1-e.a0, e.b1-e.b0
	length := make([]uint16, (n+1)*(m+1)) // from here to the end; at most 2048 each way, see maxCells
	at := func(i, j int) *uint16 { return &length[i*(m+1)+j] }
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if c.a[e.a0+i] == c.b[e.b0+j] {
				*at(i, j) = *at(i+1, j+1) + 1
			} else {
				*at(i, j) = max(*at(i+1, j), *at(i, j+1))
			}
		}
	}
	var pairs []pair
	for i, j := 0, 0; i < n && j < m; {
		switch {
		case c.a[e.a0+i] == c.b[e.b0+j]:
			pairs = append(pairs, pair{e.a0 + i, e.b0 + j})
			i, j = i+1, j+1
		case *at(i+1, j) >= *at(i, j+1):
			i++
		default:
			j++
		}
	}
	return pairs
}
