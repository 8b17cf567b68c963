package engine

import (
	"strings"

	"remit/work/tree"
)

// Changes leaves out of what a sandbox found changed what is the agent's own. A
// name that the baseline has is never that: it cannot be hidden by an engine.
func (inv *Invocation) Changes(all []tree.Change, inBaseline func(path string) bool) []tree.Change {
	if len(inv.Scratch) == 0 {
		return all
	}
	own := map[string]bool{}
	for _, name := range inv.Scratch {
		own[name] = !inBaseline(name)
	}
	var out []tree.Change
	for _, c := range all {
		if top, _, _ := strings.Cut(c.Path, "/"); !own[top] {
			out = append(out, c)
		}
	}
	return out
}
