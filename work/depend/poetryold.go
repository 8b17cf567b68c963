package depend

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
)

// The forms of poetry.lock before 2.1, and the dependencies of pyproject.toml.

// followed reads the forms before 2.1: from the dependencies of pyproject.toml along
// the edges.
func (o *poetryReader) followed(groups []string) error {
	for i, p := range o.doc.Packages {
		name := projectName(p.Name)
		o.byName[name] = append(o.byName[name], i)
		o.graph = append(o.graph, &pyPackage{name: p.Name, version: p.Version, edges: map[string][]pyEdge{}})
	}
	for i, p := range o.doc.Packages {
		o.needs(p, o.graph[i])
	}
	roots, err := o.roots(groups)
	if err != nil {
		return err
	}
	if err := spread(o.graph, roots); err != nil {
		return o.coded(err)
	}
	for i, g := range o.graph {
		if w := g.ways[""]; len(w) > 0 {
			if err := o.take(o.doc.Packages[i], w.marker()); err != nil {
				return err
			}
		}
	}
	return nil
}

// coded gives an error the code of a lock file that cannot be used, unless it has one.
func (r *pipReader) coded(err error) error {
	if reason.CodeOf(err) != "" {
		return err
	}
	return r.invalid(path.Base(r.out.lockFiles[0]), err)
}

// needs fills in the edges of a package, those of its extras under their names.
func (o *poetryReader) needs(p poetryPackage, g *pyPackage) {
	for _, name := range slices.Sorted(maps.Keys(p.Needs)) {
		for _, spec := range alternatives(p.Needs[name]) {
			e, optional := o.edge(poetryLock, name, spec)
			extras := poetryExtra().FindAllStringSubmatch(e.marker, -1)
			if !optional {
				g.edges[""] = append(g.edges[""], e)
				continue
			}
			for _, m := range extras { // of an extra: it is there when the extra is asked for
				one := e
				one.marker = extrasTrue(e.marker, []string{m[1]})
				g.edges[m[1]] = append(g.edges[m[1]], one)
			}
		}
	}
}

// alternatives are the entries of a dependency, which is one or a list of them.
func alternatives(spec any) []any {
	if list, ok := spec.([]any); ok {
		return list
	}
	return []any{spec}
}

// edge reads a dependency: a version, or a table with one and with a marker. What is
// wrong with it counts when something needs it: a lock file names extras too that
// nothing asks for.
func (o *poetryReader) edge(own, name string, spec any) (e pyEdge, optional bool) {
	table, ok := spec.(map[string]any)
	if _, text := spec.(string); !ok && !text {
		return pyEdge{bad: o.invalid(own, fmt.Errorf("the dependency %.100q is neither a version nor a table", name))}, false
	}
	optional, _ = table["optional"].(bool)
	for _, kind := range []string{"git", "path", "url", "file"} {
		if table[kind] != nil {
			e.bad = reason.Errorf(reason.DependencyRefused, "%s: the package %.200q is to come from %.200q, and Remit fetches from the index only",
				path.Join(o.dir, own), name, fmt.Sprint(table[kind])).
				WithHint("take a released version of %.200q from the index; git, path and URL dependencies are not fetched", name)
			return e, optional
		}
	}
	switch at := o.byName[projectName(name)]; len(at) {
	case 0:
		e.bad = o.invalid(poetryLock, fmt.Errorf("%s names %.100q, and the lock file does not", own, name))
	case 1:
		e.to = at[0]
	default:
		e.bad = o.invalid(poetryLock, fmt.Errorf("it has %d versions of %.100q, and does not say which of them is for whom: `poetry lock` of Poetry 2 does", len(at), name))
	}
	var err error
	if e.marker, err = poetryMarker(table); err != nil {
		e.bad = o.invalid(own, fmt.Errorf("the dependency %.100q: %w", name, err))
	}
	list, _ := table["extras"].([]any)
	for _, x := range list {
		if text, ok := x.(string); ok {
			e.extras = append(e.extras, text)
		}
	}
	return e, optional
}

// poetryMarker is when a dependency holds.
func poetryMarker(table map[string]any) (string, error) {
	var all []string
	if marker, _ := table["markers"].(string); marker != "" {
		all = append(all, marker)
	}
	if python, _ := table["python"].(string); python != "" {
		marker, err := pythonMarker(python)
		if err != nil {
			return "", err
		}
		all = append(all, marker)
	}
	if platform, _ := table["platform"].(string); platform != "" {
		if !poetryWord().MatchString(platform) {
			return "", fmt.Errorf("%.100q is no platform", platform)
		}
		all = append(all, `sys_platform == "`+platform+`"`)
	}
	if len(all) < 2 {
		return strings.Join(all, ""), nil
	}
	return "(" + strings.Join(all, ") and (") + ")", nil
}

var (
	poetryWord  = form.Lazy(`^[A-Za-z0-9_]{1,40}$`)
	pythonRange = form.Lazy(`^(\^|~|>=|<=|>|<|==|!=)?\s*([0-9]{1,4})(?:\.([0-9]{1,4}))?(?:\.([0-9]{1,4}))?(\.\*)?$`)
)

// pythonMarker is the marker of a range of versions of Python, in Poetry's words.
func pythonMarker(constraint string) (string, error) {
	var any []string
	for alternative := range strings.SplitSeq(constraint, "||") {
		var all []string
		for part := range strings.FieldsFuncSeq(alternative, func(c rune) bool { return c == ',' }) {
			part = strings.TrimSpace(part)
			m := pythonRange().FindStringSubmatch(part)
			switch {
			case part == "*":
				continue
			case m == nil:
				return "", fmt.Errorf("%.100q is no range of versions of Python that Remit reads", constraint)
			}
			version := strings.TrimRight(m[2]+"."+m[3]+"."+m[4], ".")
			switch {
			case m[1] == "^" || m[1] == "~" && m[3] == "":
				all = append(all, fmt.Sprintf(`python_full_version >= "%s" and python_full_version < "%s"`, version, after(m[2])))
			case m[1] == "~":
				all = append(all, fmt.Sprintf(`python_full_version >= "%s" and python_full_version < "%s.%s"`, version, m[2], after(m[3])))
			case m[1] == "" || m[5] != "":
				operator := "=="
				if m[1] == "!=" {
					operator = "!="
				}
				all = append(all, fmt.Sprintf(`python_full_version %s "%s.*"`, operator, version))
			default:
				all = append(all, fmt.Sprintf(`python_full_version %s "%s"`, m[1], version))
			}
		}
		if len(all) == 0 {
			return `python_version >= "0"`, nil
		}
		any = append(any, "("+strings.Join(all, " and ")+")")
	}
	return strings.Join(any, " or "), nil
}

// after is the number that follows one.
func after(number string) string {
	n := 0
	for _, c := range number {
		n = n*10 + int(c-'0')
	}
	return fmt.Sprint(n + 1)
}

// roots are the dependencies of the project itself.
func (o *poetryReader) roots(groups []string) (roots []pyEdge, err error) {
	text, err := readInput(o.base, path.Join(o.dir, poetryManifest), 1<<20)
	var doc struct {
		Tool struct {
			Poetry struct {
				Main   map[string]any      `toml:"dependencies"`
				Dev    map[string]any      `toml:"dev-dependencies"`
				Extras map[string][]string `toml:"extras"`
				Groups map[string]struct {
					Needs map[string]any `toml:"dependencies"`
				} `toml:"group"`
			} `toml:"poetry"`
		} `toml:"tool"`
	}
	if err == nil {
		err = readTOML(text, &doc)
	}
	if err != nil {
		return nil, o.invalid(poetryManifest, err)
	}
	project := doc.Tool.Poetry
	all := map[string]map[string]any{poetryMain: project.Main}
	if project.Dev != nil {
		all["dev"] = project.Dev
	}
	known := map[string]bool{}
	for name, g := range project.Groups {
		all[name] = map[string]any{}
		maps.Copy(all[name], g.Needs)
		if name == "dev" {
			maps.Copy(all[name], project.Dev)
		}
	}
	for name := range all {
		known[name] = true
	}
	wanted := map[string]bool{} // by an extra
	for extra, names := range project.Extras {
		known[extra] = true
		for _, name := range names {
			wanted[projectName(name)] = wanted[projectName(name)] || slices.Contains(groups, extra)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(all)) {
		if group != poetryMain && len(groups) > 0 && !slices.Contains(groups, group) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(all[group])) {
			if group == poetryMain && strings.EqualFold(name, "python") {
				continue
			}
			for _, spec := range alternatives(all[group][name]) {
				table, _ := spec.(map[string]any)
				if optional, _ := table["optional"].(bool); optional && !wanted[projectName(name)] {
					continue
				}
				e, _ := o.edge(poetryManifest, name, spec)
				roots = append(roots, e)
			}
		}
	}
	return roots, o.chosen(poetryLock, groups, known)
}
