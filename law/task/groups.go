package task

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"remit/proof/reason"
)

// Groups returns the verification commands in groups. The commands of a group
// share a view of the tree, one after the other, and groups share nothing.
// Under [SchemaV1] all commands are one group.
func (c *Contract) Groups() [][]string {
	if c.SharedView() {
		if len(c.VerificationCommands) == 0 {
			return nil
		}
		return [][]string{slices.Clone(c.VerificationCommands)}
	}
	rest := slices.Clone(c.VerificationCommands)
	var groups [][]string
	for _, n := range c.VerificationGroups {
		n = max(0, min(n, len(rest)))
		groups, rest = append(groups, slices.Clip(rest[:n])), rest[n:]
	}
	for i := range rest {
		groups = append(groups, rest[i:i+1:i+1])
	}
	return groups
}

// SharedView reports whether all verification commands share one view of the
// tree, as they did when the contract was made.
func (c *Contract) SharedView() bool { return c.Schema == SchemaV1 }

// addCommands appends commands that stand alone, those that do so already left
// out: nothing is gained from running one twice.
func (c *Contract) addCommands(commands []string) {
	alone := map[string]bool{}
	for _, group := range c.Groups() {
		if len(group) == 1 || c.SharedView() {
			for _, command := range group {
				alone[command] = true
			}
		}
	}
	commands = slices.DeleteFunc(slices.Clone(commands), func(command string) bool {
		again := alone[command]
		alone[command] = true
		return again
	})
	c.VerificationCommands = append(c.VerificationCommands, commands...)
	if len(c.VerificationGroups) > 0 {
		c.VerificationGroups = append(c.VerificationGroups, slices.Repeat([]int{1}, len(commands))...)
	}
}

// canonicalGroups is nil when every command stands alone.
func canonicalGroups(groups []int) []int {
	if !slices.ContainsFunc(groups, func(n int) bool { return n != 1 }) {
		return nil
	}
	return groups
}

// commandList reads verification commands: texts, and lists of texts that are
// one group each. Problems name the place in the flat list of commands.
func commandList(c *Contract) reader {
	const field = "verification_commands"
	return func(r *report, at string, n ast.Node) {
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			r.wrongType(at, n, "a list")
			return
		}
		commands, groups, anyNested := []string{}, []int{}, false
		add := func(item ast.Node) {
			child := fmt.Sprintf("%s[%d]", field, len(commands))
			r.places[child] = placeOfNode(item)
			commands = append(commands, "")
			text(&commands[len(commands)-1])(r, child, item)
		}
		for _, item := range seq.Values {
			group, nested := item.(*ast.SequenceNode)
			anyNested = anyNested || nested
			switch {
			case !nested:
				add(item)
				groups = append(groups, 1)
			case len(group.Values) == 0:
				r.add(placeOfNode(item), field, reason.ContractValue, "remove it, or write a command", "a group without a command")
			default:
				for _, command := range group.Values {
					add(command)
				}
				groups = append(groups, len(group.Values))
			}
		}
		c.VerificationCommands = commands
		switch {
		case anyNested && c.VerificationGroups != nil:
			groupsTwice(r, at, n)
		case anyNested:
			c.VerificationGroups = groups
		}
	}
}

func groupsTwice(r *report, field string, n ast.Node) {
	r.add(placeOfNode(n), field, reason.ContractValue, "keep the nested lists", "the groups of commands are stated twice: as nested lists, and as verification_groups")
}

// groupLengths reads the canonical form of groups.
func groupLengths(c *Contract) reader {
	return func(r *report, field string, n ast.Node) {
		var lengths []int64
		before := len(r.problems)
		list(func(count int) { lengths = make([]int64, count) }, func(i int) reader { return integer(&lengths[i]) })(r, field, n)
		switch {
		case len(r.problems) > before:
		case c.VerificationGroups != nil:
			groupsTwice(r, field, n)
		default:
			c.VerificationGroups = make([]int, len(lengths))
			for i, length := range lengths {
				c.VerificationGroups[i] = int(min(length, MaxListEntries+1))
			}
		}
	}
}

// checkGroups holds the groups against the commands.
func checkGroups(r *report, c *Contract) {
	if len(c.VerificationGroups) == 0 {
		return
	}
	if c.SharedView() {
		r.field("verification_commands", reason.ContractValue, "write the commands as one plain list, or leave the key schema out",
			"groups of commands need schema %s: under %s all commands share one view", Schema, SchemaV1)
		return
	}
	if !checkLength(r, "verification_groups", len(c.VerificationGroups)) {
		return
	}
	sum := 0
	for i, n := range c.VerificationGroups {
		if n < 1 || n > len(c.VerificationCommands) {
			r.field(fmt.Sprintf("verification_groups[%d]", i), reason.ContractValue, "write the groups as nested lists in verification_commands",
				"a group of %d commands, there are %d in all", n, len(c.VerificationCommands))
			return
		}
		sum += n
	}
	if sum != len(c.VerificationCommands) {
		r.field("verification_groups", reason.ContractValue, "write the groups as nested lists in verification_commands",
			"groups of %d commands in all, there are %d", sum, len(c.VerificationCommands))
	}
}
