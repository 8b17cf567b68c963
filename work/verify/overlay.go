package verify

import (
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"

	"remit/proof/reason"
	"remit/work/tree"
)

// overlays are the trees of the head phase, as changes to the baseline.
type overlays struct {
	head     []tree.Change // the tree that counts
	unedited []tree.Change // the base's tests on the new code; only with edited
	// testsAlone is the base with the patch's tests; only with extend and free.
	testsAlone []tree.Change
	mixed      []string // paths of tests that hold code as well, whose test part the patch changes
	edited     bool     // the patch touches tests and the rule is extend
	inBase     bool     // some of them are in the base
	dropped    []string // not applied to head
	tests      []string // paths of tests and runner configuration that the patch changes
	deleted    []string // those of them that the base has and the patch removes
	fresh      []string // those of them that the base does not have, and that nothing there would make
	findings   []reason.Finding
	because    []string // why changes of files that shells of the tests read count as changes of tests
}

// maxEntries bounds the walks over the baseline.
const maxEntries = 1_000_000

// lay sorts the patch by the tests rule and lays the held-out tests over it.
func lay(p *Plan) (*overlays, error) {
	root, err := os.OpenRoot(p.Lower)
	if err != nil {
		return nil, reason.Errorf(reason.InfrastructureFault, "opening the baseline checkout: %w", err)
	}
	defer root.Close()
	patch, err := expand(root, p.Patch)
	if err != nil {
		return nil, err
	}
	o := &overlays{}
	steers := p.steers().with(root, patch)
	for _, p := range steers.standing {
		o.findings = append(o.findings, reason.Finding{Code: reason.VerificationFailed, Path: p, Detail: "make does nothing for the target " + strconv.Quote(path.Base(p)) +
			": there is a file or directory of that name, and the makefile does not say that it is .PHONY", Hint: idleHint})
	}
	kept := make(map[string]tree.Change)  // code
	tests := make(map[string]tree.Change) // tests and runner configuration
	alone := make(map[string]tree.Change) // of mixed files: the patch's tests with the base's code
	for _, c := range patch {
		if f := inadmissible(c); f != nil {
			o.findings = append(o.findings, *f)
			continue
		}
		_, err := root.Lstat(c.Path)
		inBase := err == nil
		// What the base does not have is older than the base: a build tool makes it,
		// if it can, and does not take what the patch brings for what it has made.
		c.Old = !inBase
		isTest, finding := o.classify(root, p, c, inBase, steers)
		if finding != nil && p.Tests != RuleFree {
			o.findings = append(o.findings, *finding)
		}
		if mixed := mix(root, c); mixed != nil && !isTest {
			kept[c.Path], tests[c.Path], alone[c.Path] = mixed.code, c, mixed.tests
			o.mixed = append(o.mixed, c.Path)
			o.inBase = o.inBase || mixed.inBase
			continue
		}
		if !isTest {
			kept[c.Path] = c
			continue
		}
		tests[c.Path] = c
		if inBase {
			o.inBase = true
		} else if !steers.brings(root, c.Path) { // a command that names it asks for the target
			o.fresh = append(o.fresh, c.Path)
		}
		if c.Kind == tree.Delete {
			o.deleted = append(o.deleted, c.Path)
		}
	}
	o.tests = slices.Sorted(maps.Keys(tests))
	slices.Sort(o.because)
	slices.Sort(o.deleted)
	slices.Sort(o.fresh)
	if p.Tests != RuleFree {
		delivered := slices.Collect(maps.Values(kept))
		if p.Tests == RuleExtend {
			delivered = slices.AppendSeq(delivered, maps.Values(tests))
		}
		embedding, err := embedsTests(root, tree.Sorted(delivered), p.HeldOut)
		if err != nil {
			return nil, err
		}
		o.findings = append(o.findings, embedding...)
	}
	o.compose(p, kept, tests, alone)
	return o, nil
}

// compose makes the trees of the rule.
func (o *overlays) compose(p *Plan, kept, tests, alone map[string]tree.Change) {
	all, testsAlone := maps.Clone(kept), maps.Clone(tests)
	maps.Copy(all, tests)
	maps.Copy(testsAlone, alone)
	switch p.Tests {
	case RuleProtect:
		o.head, o.dropped = o.cover(kept, tests, p.HeldOut), o.tests
	case RuleFree:
		o.head, o.testsAlone = o.cover(all, nil, p.HeldOut), o.cover(testsAlone, nil, p.HeldOut)
	default:
		o.head, o.testsAlone = o.cover(all, nil, p.HeldOut), o.cover(testsAlone, nil, p.HeldOut)
		if o.edited = len(tests) > 0; o.edited {
			o.unedited = o.cover(kept, tests, p.HeldOut)
		}
	}
}

// cover lays the held-out files over changes. Files that the tree must have
// (held-out ones, and the base's where a change was left out) must be
// reachable: a patch that puts a file or a link where one of their directories
// was has removed them in its own way.
func (o *overlays) cover(changes, restored map[string]tree.Change, heldOut []tree.Change) []tree.Change {
	needed := maps.Clone(restored)
	if needed == nil {
		needed = make(map[string]tree.Change)
	}
	for _, h := range heldOut {
		needed[h.Path] = h
	}
	blocked := make(map[string]bool)
	for p := range needed {
		for dir := range parents(p) {
			if c, inTheWay := changes[dir]; inTheWay && c.Kind != tree.Delete {
				blocked[dir] = true
				o.tampering(dir, "the patch puts a %s where the directory of %q is", c.Kind, p)
			}
		}
	}
	laid := make(map[string]tree.Change, len(changes)+len(heldOut))
	for p, c := range changes {
		for dir := range parents(p) {
			if _, isFile := needed[dir]; isFile && c.Kind != tree.Delete {
				blocked[p] = true
				o.tampering(p, "the patch puts a directory where %q is", dir)
			}
		}
		if !blocked[p] {
			laid[p] = c
		}
	}
	for _, h := range heldOut {
		laid[h.Path] = h
	}
	return tree.Sorted(slices.Collect(maps.Values(laid)))
}

// parents yields the directories above p, the nearest first.
func parents(p string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for dir := path.Dir(p); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if !yield(dir) {
				return
			}
		}
	}
}

func (o *overlays) tampering(p, format string, args ...any) {
	f := reason.Finding{Code: reason.VerifierTampering, Path: p, Detail: fmt.Sprintf(format, args...)}
	if !slices.Contains(o.findings, f) {
		o.findings = append(o.findings, f)
	}
}

// expand writes out what a change of a whole directory stands for, so that
// each test below it is seen: a deleted directory, and one that a file or a
// link takes the place of.
func expand(root *os.Root, patch []tree.Change) ([]tree.Change, error) {
	var out []tree.Change
	for _, c := range patch {
		info, err := root.Lstat(c.Path)
		if err != nil || !info.IsDir() || !tree.ValidPath(c.Path) {
			out = append(out, c)
			continue
		}
		files, err := filesBelow(root, c.Path)
		if err != nil {
			return nil, reason.Errorf(reason.InfrastructureFault, "reading the baseline below %q: %w", c.Path, err)
		}
		for _, f := range files {
			out = append(out, tree.Change{Path: f, Kind: tree.Delete})
		}
		if c.Kind != tree.Delete {
			out = append(out, c)
		}
	}
	return out, nil
}

// filesBelow lists everything below dir that is not a directory, following no
// link.
func filesBelow(root *os.Root, dir string) ([]string, error) {
	var files []string
	seen := 0
	err := fs.WalkDir(root.FS(), dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if seen++; seen > maxEntries {
			return fmt.Errorf("more than %d entries", maxEntries)
		}
		if !d.IsDir() {
			files = append(files, p)
		}
		return nil
	})
	return files, err
}
