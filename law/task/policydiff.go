package task

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Effect is what a change of a policy does to those who are under it.
type Effect string

// The effects. Changes is one that cannot be said to be either of the others.
const (
	Allows  Effect = "allows"
	Forbids Effect = "forbids"
	Changes Effect = "changes"
)

// PolicyChange is one difference of two policies. The sentence quotes the policy.
type PolicyChange struct {
	Key      string `json:"key"`
	Effect   Effect `json:"effect"`
	Sentence string `json:"sentence"`
	// Paths are the globs that the sentence is about, of a rule about paths. Except are
	// those that it does not hold for.
	Paths  []string `json:"paths,omitempty"`
	Except []string `json:"except,omitempty"`
}

// ComparePolicies says what the policy after newly allows and forbids, what widens
// first. Nil is no policy: then the defaults hold. Policies without a difference have
// the same digest.
func ComparePolicies(before, after *Policy) []PolicyChange {
	d := &policyDiff{a: before, b: after}
	if before == nil {
		d.a = &Policy{}
	}
	if after == nil {
		d.b = &Policy{}
	}
	d.paths()
	d.lists()
	d.switches()
	d.scales()
	d.limits()
	d.verification()
	d.engines()
	d.rest()
	switch {
	case before == nil && after != nil:
		d.add(PolicyFile, Changes, "the repository has a policy now, and had none")
	case before != nil && after == nil:
		d.add(PolicyFile, Allows, "the repository has no policy any more: the defaults hold")
	}
	order := []Effect{Allows, Forbids, Changes}
	slices.SortStableFunc(d.out, func(x, y PolicyChange) int {
		return cmp.Compare(slices.Index(order, x.Effect), slices.Index(order, y.Effect))
	})
	return d.out
}

type policyDiff struct {
	a, b *Policy
	done []string // keys that are compared by a rule of their own
	out  []PolicyChange
}

func (d *policyDiff) add(key string, effect Effect, format string, args ...any) {
	d.out = append(d.out, PolicyChange{Key: key, Effect: effect, Sentence: fmt.Sprintf(format, args...)})
}

// list compares a list of which each member has a meaning of its own: gained and
// lost are the sentences, with %s for the member.
func (d *policyDiff) list(key string, a, b []string, gained Effect, gain, lost string) {
	d.done = append(d.done, key)
	opposite := map[Effect]Effect{Allows: Forbids, Forbids: Allows}[gained]
	for _, s := range b {
		if !slices.Contains(a, s) {
			d.add(key, gained, gain, printable(s))
		}
	}
	for _, s := range a {
		if !slices.Contains(b, s) {
			d.add(key, opposite, lost, printable(s))
		}
	}
}

func (d *policyDiff) lists() {
	a, b := d.a, d.b
	d.list("forbidden_actions", union(DefaultForbiddenActions(), a.ForbiddenActions), union(DefaultForbiddenActions(), b.ForbiddenActions), Forbids,
		"an agent may not do %s", "%s is no longer forbidden to an agent")
	d.list("allow_ops", words(orElse(a.AllowOps, Permissions())), words(orElse(b.AllowOps, Permissions())), Allows, "a change may %s", "a change may not %s any more")
	d.list("export", a.Export.Actions, b.Export.Actions, Allows, "an operator's export may do %s at the forge", "an operator's export may not do %s at the forge any more")
	d.list("verification_commands", a.VerificationCommands, b.VerificationCommands, Forbids, "a change has to pass %s", "a change need not pass %s any more")
	d.list("verify", words(a.Verify.Require), words(b.Verify.Require), Forbids, "a change has to show that it is %s", "a change need not show that it is %s any more")
}

// orElse is a list, or what holds where it is not stated.
func orElse[T any](stated, otherwise []T) []T {
	if stated == nil {
		return otherwise
	}
	return stated
}

func words[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}

// turn compares something that is on or off.
func (d *policyDiff) turn(key string, a, b bool, on Effect, yes, no string) {
	d.done = append(d.done, key)
	switch {
	case a == b:
	case b:
		d.add(key, on, "%s", yes)
	default:
		d.add(key, map[Effect]Effect{Allows: Forbids, Forbids: Allows}[on], "%s", no)
	}
}

func (d *policyDiff) switches() {
	a, b := d.a, d.b
	clean := func(p *Policy) bool { return p.RequireClean == nil || *p.RequireClean }
	d.turn("allow_symlinks", a.AllowSymlinks, b.AllowSymlinks, Allows, "a change may make symbolic links", "a change may not make symbolic links any more")
	d.turn("allow_submodules", a.AllowSubmodules, b.AllowSubmodules, Allows, "a change may touch submodules", "a change may not touch submodules any more")
	d.turn("approval_required", a.ApprovalRequired, b.ApprovalRequired, Forbids, "a run needs the approval of a person", "a run needs no approval of a person any more")
	d.turn("require_clean", clean(a), clean(b), Forbids, "a run needs a work tree without uncommitted changes", "a run may begin beside uncommitted changes")
	d.turn("records", a.SignedRecords(), b.SignedRecords(), Forbids, "records that grant something have to be signed", "records that grant something need no signature any more")
	d.turn("network", a.Network == NetworkGateway, b.Network == NetworkGateway, Allows, "an engine may ask its model through the gateway", "an engine may not ask a model any more")
	d.turn("lifecycle", a.Lifecycle.AllowsTimeout(), b.Lifecycle.AllowsTimeout(), Allows,
		"a run can pass whose engine had to be stopped", "a run whose engine had to be stopped cannot pass any more")
}

// scale compares places on a scale, the strictest first.
func (d *policyDiff) scale(key string, a, b int, names []string) {
	d.done = append(d.done, key)
	if a == b || a < 0 || b < 0 {
		return
	}
	effect := Forbids
	if b > a {
		effect = Allows
	}
	d.add(key, effect, "%s is %s, and was %s", key, names[b], names[a])
}

func (d *policyDiff) scales() {
	a, b := d.a.contract(), d.b.contract()
	d.scale("tests", slices.Index(TestsRules(), a.Tests), slices.Index(TestsRules(), b.Tests), words(TestsRules()))
	modes := make([]string, 0, len(MutationModes()))
	for _, m := range MutationModes() {
		modes = append(modes, m.String())
	}
	widest := func(p *Policy) int { // without a statement it is the contract that says it
		if p.MutationMode == nil {
			return len(modes) - 1
		}
		return int(*p.MutationMode)
	}
	d.scale("mutation_mode", widest(d.a), widest(d.b), modes)
	classes := slices.Clone(RiskClasses()) // a higher class asks for more
	slices.SortFunc(classes, func(x, y RiskClass) int { return cmp.Compare(y.rank(), x.rank()) })
	d.scale("risk_class", slices.Index(classes, a.RiskClass), slices.Index(classes, b.RiskClass), words(classes))
}

// limits compares numbers of which a lower one is stricter, and none is no limit.
func (d *policyDiff) limits() {
	compare := func(key string, a, b *int64) {
		switch {
		case a == nil && b == nil || a != nil && b != nil && *a == *b:
		case b == nil:
			d.add(key, Allows, "%s has no limit any more, and had %d", key, *a)
		case a == nil:
			d.add(key, Forbids, "%s is at most %d, and had no limit", key, *b)
		case *b > *a:
			d.add(key, Allows, "%s is at most %d, and was %d", key, *b, *a)
		default:
			d.add(key, Forbids, "%s is at most %d, and was %d", key, *b, *a)
		}
	}
	numbers := func(prefix string, a, b any) {
		x, y := reflect.ValueOf(a), reflect.ValueOf(b)
		for i := range x.NumField() {
			name, _, _ := strings.Cut(x.Type().Field(i).Tag.Get("json"), ",")
			compare(prefix+"."+name, number(x.Field(i)), number(y.Field(i)))
		}
		d.done = append(d.done, prefix)
	}
	numbers("budget", d.a.Budget, d.b.Budget)
	numbers("limits", d.a.Limits, d.b.Limits)
}

// number is a limit, nil for none: 0 is none where the field is no pointer.
func number(v reflect.Value) *int64 {
	if v.Kind() != reflect.Pointer {
		if n := v.Int(); n != 0 {
			return &n
		}
		return nil
	}
	if v.IsNil() {
		return nil
	}
	n := v.Elem().Int()
	return &n
}

// verification compares how thoroughly a change is verified.
func (d *policyDiff) verification() {
	a, b := d.a.Verify, d.b.Verify
	effective := func(v Verify) Verify {
		v.Control, v.Scheme, v.Observe = v.ControlRule(), v.SchemeRule(), v.ObserveRule()
		return v
	}
	for _, w := range effective(b).weakens(a) {
		d.add("verify."+w.key, Allows, "verify.%s is %s, and was %s: less is verified", w.key, w.asked, w.held)
	}
	for _, w := range effective(a).weakens(b) {
		d.add("verify."+w.key, Forbids, "verify.%s is %s, and was %s: more is verified", w.key, w.held, w.asked)
	}
}

func (d *policyDiff) engines() {
	d.done = append(d.done, "engines")
	both := maps.Clone(d.a.Engines)
	if both == nil {
		both = map[string]EnginePolicy{}
	}
	maps.Copy(both, d.b.Engines)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		was, stated := d.a.Engine(name)
		is, still := d.b.Engine(name)
		switch {
		case is && !was:
			d.add("engines", Allows, "engine %s is switched on", name)
		case was && !is:
			d.add("engines", Forbids, "engine %s is switched off", name)
		case stated && !still:
			d.add("engines", Changes, "engine %s is not named any more, and was switched off", name)
		case still && !stated:
			d.add("engines", Changes, "engine %s is switched off by name", name)
		}
	}
}

// rest says of every other key that it is another one now, and of a key with a rule of
// its own where that has found nothing: an order, or a default that is written out.
func (d *policyDiff) rest() {
	a, b := d.a.stated(), d.b.stated()
	keys := map[string]any{}
	maps.Copy(keys, a)
	maps.Copy(keys, b)
	said := func(key string) bool {
		return slices.ContainsFunc(d.out, func(c PolicyChange) bool { return c.Key == key || strings.HasPrefix(c.Key, key+".") })
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		was, is := written(a[key]), written(b[key])
		if was == is || said(key) {
			continue
		}
		how := ""
		if slices.Contains(d.done, key) {
			how = ": what it allows is the same"
		}
		d.add(key, Changes, "%s is %s, and was %s%s", key, is, was, how)
	}
}

const maxWritten = 300

func written(v any) string {
	if v == nil {
		return "not stated"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "unreadable"
	}
	return printable(firstRunes(string(text), maxWritten))
}

// paths compares the rules about paths. A sentence is about a glob that is new, or gone,
// and says what is left of it by another one: `*.py` that becomes `**` forbids nothing.
// Globs are compared by their text, so a sentence may be about more than it has to be,
// and is true all the same.
func (d *policyDiff) paths() {
	d.allowedPaths()
	d.deniedPaths("forbidden_paths", d.a.ForbiddenPaths, d.b.ForbiddenPaths, "%s may not change", "forbidden")
	d.deniedPaths("protected_paths", d.a.ProtectedPaths, d.b.ProtectedPaths, "%s is protected", "protected")
}

func (d *policyDiff) about(key string, effect Effect, path string, except []string, sentence string) {
	d.out = append(d.out, PolicyChange{Key: key, Effect: effect, Sentence: sentence, Paths: []string{path}, Except: except})
}

func (d *policyDiff) allowedPaths() {
	const key = "allowed_paths"
	d.done = append(d.done, key)
	a, b := d.a.AllowedPaths, d.b.AllowedPaths
	switch {
	case len(a) > 0 && len(b) == 0:
		d.add(key, Allows, "the policy bounds the paths that may change no more: flags and task files do")
		return
	case len(a) == 0 && len(b) > 0:
		d.add(key, Forbids, "nothing but %s may change", some(b))
		return
	}
	denied := func(p *Policy) []string { return slices.Concat(p.ForbiddenPaths, p.ProtectedPaths) }
	for _, glob := range b {
		if Covered(a, glob) {
			continue
		}
		name, but := printable(glob), meeting(denied(d.b), glob)
		switch {
		case denies(denied(d.b), glob):
			d.about(key, Changes, glob, but, fmt.Sprintf("%s is in the list, and may not change all the same: %s", name, some(but)))
		case len(but) > 0:
			d.about(key, Allows, glob, but, fmt.Sprintf("%s may change, but not %s", name, some(but)))
		default:
			d.about(key, Allows, glob, nil, name+" may change")
		}
	}
	for _, glob := range a {
		if Covered(b, glob) {
			continue
		}
		name, left := printable(glob), meeting(b, glob)
		switch {
		case denies(denied(d.a), glob):
			d.about(key, Changes, glob, left, name+" is in the list no more, and could not change before")
		case len(left) > 0:
			d.about(key, Forbids, glob, left, fmt.Sprintf("of %s, nothing but %s may change any more", name, some(left)))
		default:
			d.about(key, Forbids, glob, nil, name+" may no longer change")
		}
	}
}

// deniedPaths compares a list of paths that may not change. deny is the sentence of one,
// and word what it is then.
func (d *policyDiff) deniedPaths(key string, a, b []string, deny, word string) {
	d.done = append(d.done, key)
	for _, glob := range b {
		if !denies(a, glob) {
			d.about(key, Forbids, glob, nil, fmt.Sprintf(deny, printable(glob)))
		}
	}
	for _, glob := range a {
		if denies(b, glob) {
			continue
		}
		left, effect := meeting(b, glob), Allows
		sentence := fmt.Sprintf("%s is %s no more", printable(glob), word)
		if len(left) > 0 {
			sentence = fmt.Sprintf("of %s, nothing but %s is %s any more", printable(glob), some(left), word)
		}
		if len(d.b.AllowedPaths) > 0 && len(meeting(d.b.AllowedPaths, glob)) == 0 {
			effect = Changes
			sentence += ", and no allowed path has it"
		}
		d.about(key, effect, glob, left, sentence)
	}
}

// meeting are the globs that can cover a name together with glob.
func meeting(globs []string, glob string) (out []string) {
	for _, other := range globs {
		if !apart(other, glob) {
			out = append(out, other)
		}
	}
	return out
}

// denies reports whether a glob of a list that denies covers all that glob does, there or
// in a list that allows. In a list that denies, a plain name is also the tree below it:
// a `*` that becomes `a` has not had `a/b`.
func denies(list []string, glob string) bool {
	return slices.ContainsFunc(list, func(outer string) bool {
		_, whole := tree(outer)
		return outer == glob || whole && covers(outer, glob) || isPlain(outer) && strings.HasPrefix(glob+"/", strings.TrimSuffix(outer, "/")+"/")
	})
}
