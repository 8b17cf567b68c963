package secret

import "slices"

// anchorBytes is how much of a pattern the automaton knows. The rest is
// compared where the beginning stands, so that its table stays in the cache.
const anchorBytes = 8

// automaton is Aho-Corasick over the beginnings of patterns, as a table: one
// step a byte. A line break leaves the state alone.
type automaton struct {
	class  [256]uint32 // byte to column
	next   []uint32    // row + column to row; rows are multiples of the width
	width  uint32
	output uint32    // rows from here on are those at which something ends
	ends   [][]int32 // what ends there, by row/width
}

// anchor is the part of a pattern that the automaton finds.
func (p *pattern) anchor() []byte {
	if p.shape != nil {
		return p.text
	}
	return p.text[:min(len(p.text), anchorBytes)]
}

// trieNode is a state while the automaton is built.
type trieNode struct {
	child []int32 // by column, -1 for none
	fail  int32
	ends  []int32
}

func compile(patterns []pattern) *automaton {
	a := &automaton{}
	classes := uint32(1) // column 0 is every byte that stands in no pattern
	for i := range patterns {
		for _, c := range patterns[i].anchor() {
			if a.class[c] == 0 {
				a.class[c] = classes
				classes++
			}
		}
	}
	newline := classes
	a.class['\n'], a.class['\r'] = newline, newline
	a.width = classes + 1
	nodes := trie(patterns, a)
	order := breadthFirst(nodes)
	a.number(nodes, order, newline)
	return a
}

func trie(patterns []pattern, a *automaton) []trieNode {
	empty := func() trieNode { return trieNode{child: slices.Repeat([]int32{-1}, int(a.width))} }
	nodes := []trieNode{empty()}
	for i := range patterns {
		at := int32(0)
		for _, c := range patterns[i].anchor() {
			column := a.class[c]
			if nodes[at].child[column] < 0 {
				nodes[at].child[column] = int32(len(nodes))
				nodes = append(nodes, empty())
			}
			at = nodes[at].child[column]
		}
		nodes[at].ends = append(nodes[at].ends, int32(i))
	}
	return nodes
}

// breadthFirst completes the transitions: what a state lacks is what the
// longest other beginning that it ends in would do.
func breadthFirst(nodes []trieNode) []int32 {
	order := []int32{0}
	for i := 0; i < len(order); i++ {
		at := order[i]
		for column, child := range nodes[at].child {
			fallback := int32(0)
			if at != 0 {
				fallback = nodes[nodes[at].fail].child[column]
			}
			if child < 0 {
				nodes[at].child[column] = max(fallback, 0)
				continue
			}
			nodes[child].fail = max(fallback, 0)
			nodes[child].ends = append(nodes[child].ends, nodes[nodes[child].fail].ends...)
			order = append(order, child)
		}
	}
	return order
}

// number writes the table, the states at which something ends last.
func (a *automaton) number(nodes []trieNode, order []int32, newline uint32) {
	row := make([]uint32, len(nodes))
	count := uint32(0)
	place := func(ending bool) {
		for _, n := range order {
			if (len(nodes[n].ends) > 0) == ending {
				row[n] = count * a.width
				count++
			}
		}
	}
	place(false)
	a.output = count * a.width
	place(true)
	a.next = make([]uint32, int(count*a.width))
	a.ends = make([][]int32, count)
	for n := range nodes {
		at := row[n]
		for column, child := range nodes[n].child {
			a.next[at+uint32(column)] = row[child]
		}
		a.next[at+newline] = at
		a.ends[at/a.width] = nodes[n].ends
	}
}

// skip reads b from a state until something ends, and returns how many bytes
// it took (0 if nothing ends in b) and the state after them. The root is never
// a state at which something ends, so it is row 0.
func (a *automaton) skip(state uint32, b []byte) (int, uint32) {
	class, next := &a.class, a.next
	for i, c := range b {
		state = next[state+class[c]]
		if state >= a.output && c != '\n' && c != '\r' {
			return i + 1, state
		}
	}
	return 0, state
}
