package twin

import "go/ast"

// maxGoReach bounds how many mentions are followed in a file; what is found
// later belongs to no test.
const maxGoReach = 4 << 20

// goGraph says which declarations of a file mention which names. Methods count
// by their name alone, so it has too many edges rather than too few.
type goGraph struct {
	decls     []goMentions
	named     map[string][]int // declarations by name
	mentioned map[string]bool  // names that another declaration mentions
	users     [][]string       // the tests that reach each declaration, in the order of the text
}

type goMentions struct{ own, others []string }

// goReach reads who mentions whom, and follows it from each of the tests.
func goReach(tree *ast.File, tests []Test) *goGraph {
	g := &goGraph{named: map[string][]int{}, mentioned: map[string]bool{}, users: make([][]string, len(tree.Decls))}
	for i, d := range tree.Decls {
		own := goNames(d)
		g.decls = append(g.decls, goMentions{own: own})
		for _, n := range own {
			g.named[n] = append(g.named[n], i)
		}
	}
	for i, d := range tree.Decls {
		seen := map[string]bool{}
		for _, n := range g.decls[i].own {
			seen[n] = true
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && !seen[id.Name] && g.named[id.Name] != nil {
				seen[id.Name] = true
				g.decls[i].others = append(g.decls[i].others, id.Name)
				g.mentioned[id.Name] = true
			}
			return true
		})
	}
	budget := maxGoReach
	for _, t := range tests {
		if t.Why != "" || goTestName(t.Name, "Example") {
			continue // it has no name that a helper could ask for
		}
		for _, i := range g.follow(t.Name, &budget) {
			g.users[i] = append(g.users[i], t.Name)
		}
	}
	return g
}

// goNames are the names by which other declarations mention d.
func goNames(d ast.Decl) []string {
	if fn, ok := d.(*ast.FuncDecl); ok {
		return []string{fn.Name.Name}
	}
	var out []string
	for _, id := range goDeclares(d) {
		out = append(out, id.Name)
	}
	return out
}

// follow returns the declarations that a name leads to, its own among them.
func (g *goGraph) follow(name string, budget *int) []int {
	var out []int
	seen, done := map[string]bool{name: true}, map[int]bool{}
	for todo := []string{name}; len(todo) > 0 && *budget > 0; {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, i := range g.named[n] {
			*budget -= 1 + len(g.decls[i].others)
			if done[i] {
				continue
			}
			done[i] = true
			out = append(out, i)
			for _, m := range g.decls[i].others {
				if !seen[m] {
					seen[m] = true
					todo = append(todo, m)
				}
			}
		}
	}
	return out
}
