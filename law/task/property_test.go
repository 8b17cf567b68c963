package task

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Names and globs are drawn from few components, so that they meet often.
// Functions, since a generator finishes itself at its first draw: tests that
// run side by side cannot share one.

func anyComponent() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"a", "b", "ab", "A", "src", "x.go", "y.go", ".git", "GIT~1", "é", "e\u0301", "\xff", "a\nb", " ", "AGENTS.md", "[a]", "z:y"})
}

func globPart() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"a", "b", "src", "*", "**", "?", "*.go", "x.go", "[ab]", "{a,b}", "a*", "{,a}b", "A", "é", "[!a]", "..", "{a,{b}}"})
}

func anyName() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(anyComponent(), 1, 4).Draw(t, "components"), "/")
	})
}

func anyGlob() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		glob := strings.Join(rapid.SliceOfN(globPart(), 1, 4).Draw(t, "parts"), "/")
		return glob + rapid.SampledFrom([]string{"", "", "/"}).Draw(t, "end")
	})
}

func validGlob() *rapid.Generator[string] {
	return anyGlob().Filter(func(g string) bool { return checkGlob(g) == nil })
}

func anyChange() *rapid.Generator[WriteOp] {
	return rapid.Custom(func(t *rapid.T) WriteOp {
		w := WriteOp{
			Path: anyName().Draw(t, "path"), Op: rapid.SampledFrom(knownOps).Draw(t, "op"),
			OldMode: rapid.SampledFrom([]string{"", ModeFile, ModeExecutable, ModeSymlink, ModeGitlink}).Draw(t, "old mode"),
			NewMode: rapid.SampledFrom([]string{"", ModeFile, ModeExecutable, ModeSymlink, ModeGitlink}).Draw(t, "new mode"),
		}
		if w.NewMode == ModeSymlink {
			w.LinkTarget = rapid.SampledFrom([]string{"a", "../b", "/x", ".git", "..", "b/../../x"}).Draw(t, "target")
		}
		if w.Op == OpRename {
			w.OldPath = anyName().Draw(t, "old path")
		}
		return w
	})
}

func anyEnvelope() *rapid.Generator[Envelope] {
	return rapid.Custom(func(t *rapid.T) Envelope {
		return Envelope{
			AllowOps:        rapid.SliceOfDistinct(rapid.SampledFrom(Permissions()), rapid.ID[Permission]).Draw(t, "ops"),
			AllowPaths:      rapid.SliceOfN(anyGlob(), 0, 3).Draw(t, "allow"),
			DenyPaths:       rapid.SliceOfN(anyGlob(), 0, 3).Draw(t, "deny"),
			AllowSymlinks:   rapid.Bool().Draw(t, "symlinks"),
			AllowSubmodules: rapid.Bool().Draw(t, "submodules"),
		}
	})
}

func passes(e Envelope, w WriteOp) bool { return len(e.Check([]WriteOp{w})) == 0 }

func TestDenyAlwaysWins(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name, e := anyName().Draw(t, "name"), anyEnvelope().Draw(t, "envelope")
		e.AllowOps, e.AllowPaths = Permissions(), append(e.AllowPaths, "**", name)
		e.DenyPaths = append(e.DenyPaths, rapid.SampledFrom([]string{"**", "**/*", "**/"}).Draw(t, "deny all"))
		if passes(e, WriteOp{Path: name, Op: OpModify}) {
			t.Fatalf("%q passes %+v", name, e)
		}
		// The glob that allows a name, as a deny glob, denies it.
		glob := validGlob().Draw(t, "glob")
		if compile(glob).allows(name) && passes(Envelope{AllowOps: Permissions(), AllowPaths: []string{glob}, DenyPaths: []string{glob}}, WriteOp{Path: name, Op: OpModify}) {
			t.Fatalf("%q passes although %q denies it", name, glob)
		}
	})
}

func TestAddingDenyNeverAllowsMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e, w := anyEnvelope().Draw(t, "envelope"), anyChange().Draw(t, "change")
		more := e
		more.DenyPaths = append(slices.Clone(e.DenyPaths), anyGlob().Draw(t, "more"))
		if passes(more, w) && !passes(e, w) {
			t.Fatalf("%+v passes only with %v denied", w, more.DenyPaths)
		}
		more.DenyPaths, more.ProtectPaths = e.DenyPaths, []string{anyGlob().Draw(t, "protect")}
		if passes(more, w) && !passes(e, w) {
			t.Fatalf("%+v passes only with %v protected", w, more.ProtectPaths)
		}
	})
}

func TestTakingAwayNeverAllowsMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e, w := anyEnvelope().Draw(t, "envelope"), anyChange().Draw(t, "change")
		less := e
		less.AllowSymlinks, less.AllowSubmodules = false, false
		if len(e.AllowPaths) > 0 {
			less.AllowPaths = e.AllowPaths[1:]
		}
		if len(e.AllowOps) > 0 {
			less.AllowOps = e.AllowOps[1:]
		}
		if passes(less, w) && !passes(e, w) {
			t.Fatalf("%+v passes only the smaller %+v", w, less)
		}
	})
}

// An independent statement of the promise: what passes is allowed by some
// glob, lies in the tree, and is not git's.
func TestWhatPassesIsInside(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e, w := anyEnvelope().Draw(t, "envelope"), anyChange().Draw(t, "change")
		if !passes(e, w) {
			return
		}
		if !slices.ContainsFunc(e.AllowPaths, func(g string) bool { return compile(g).allows(w.Path) }) {
			t.Fatalf("%+v is allowed by no glob of %+v", w, e)
		}
		for part := range strings.SplitSeq(strings.ToLower(w.Path), "/") {
			if part == ".git" || part == "git~1" || part == ".." || part == "agents.md" {
				t.Fatalf("%+v passes %+v", w, e)
			}
		}
		if (w.NewMode == ModeSymlink || w.Op == OpSymlink && w.OldMode == "") && !e.AllowSymlinks {
			t.Fatalf("symlink %+v passes %+v", w, e)
		}
	})
}

func TestNarrowNeverEnlarges(t *testing.T) {
	t.Parallel()
	narrowed := 0
	rapid.Check(t, func(t *rapid.T) {
		c := defaults()
		c.TaskID, c.Title, c.Instructions, c.bounded, c.ForbiddenActions = "t", "t", "t", true, DefaultForbiddenActions()
		c.AllowedPaths = rapid.SliceOfN(validGlob(), 1, 3).Draw(t, "allowed")
		c.ForbiddenPaths = rapid.SliceOfN(validGlob(), 0, 2).Draw(t, "forbidden")
		// Most flags are made from an allowed glob, so that many do narrow.
		below := rapid.Custom(func(t *rapid.T) string {
			outer := rapid.SampledFrom(c.AllowedPaths).Draw(t, "outer")
			if top, ok := tree(outer); ok {
				return strings.TrimPrefix(top+"/"+anyGlob().Draw(t, "inner"), "/")
			}
			return outer
		}).Filter(func(g string) bool { return checkGlob(g) == nil })
		allow := rapid.SliceOfN(rapid.OneOf(below, below, below, validGlob()), 1, 2).Draw(t, "allow")
		got, err := Narrow(c, Flags{Allow: allow, Forbid: rapid.SliceOfN(validGlob(), 0, 2).Draw(t, "forbid")})
		if err != nil {
			return
		}
		narrowed++
		before, after := c.Envelope(), got.Envelope()
		for _, w := range rapid.SliceOfN(anyChange(), 20, 40).Draw(t, "changes") {
			if passes(after, w) && !passes(before, w) {
				t.Fatalf("%+v passes %v, not %v", w, after.AllowPaths, before.AllowPaths)
			}
		}
	})
	if narrowed < 10 {
		t.Errorf("only %d of the flags narrowed: the property was hardly tried", narrowed)
	}
}

// Whatever a valid contract says, its canonical form says the same.
func TestCanonicalFormKeepsTheDigest(t *testing.T) {
	t.Parallel()
	kept := 0
	line := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"yes", "null", "1.50", "- x", "a: b", "#1", "\"q\"", "'", "|", "&a", "*b", "<>&", "\\n", "é ", " x", "{a}", "~", "0x1", "\u0085", "\u00a0", "a\tb", "@", "%x", "---"}))
	rapid.Check(t, func(t *rapid.T) {
		c := defaults()
		c.bounded, c.ForbiddenActions = true, DefaultForbiddenActions()
		c.TaskID = rapid.StringMatching(`[a-z0-9]{1,8}`).Draw(t, "id")
		c.Title, c.TargetRepository = line.Draw(t, "title"), line.Draw(t, "repository")
		c.Instructions = strings.Join(rapid.SliceOfN(line, 1, 4).Draw(t, "instructions"), rapid.SampledFrom([]string{"\n", "\n\n  ", "\n\t"}).Draw(t, "break"))
		c.VerificationCommands = rapid.SliceOfN(line, 0, 3).Draw(t, "commands")
		c.AllowedPaths = rapid.SliceOfN(rapid.OneOf(validGlob(), line), 1, 3).Draw(t, "allowed")
		c.Budget.MaxBudgetMicroUSD = rapid.Ptr(rapid.Int64Range(0, maxInteger), true).Draw(t, "budget")
		c.MutationMode = rapid.SampledFrom(MutationModes()).Draw(t, "mode")
		if rapid.Bool().Draw(t, "issue") {
			c.Issue = &Issue{Number: rapid.Ptr(rapid.Int64Range(1, maxInteger), true).Draw(t, "number"), Source: line.Draw(t, "source")}
		}
		if c.Title == "" || c.Validate() != nil {
			return
		}
		kept++
		sameAfterRoundTrip(t, c)
	})
	if kept < 5 {
		t.Errorf("only %d valid contracts drawn", kept)
	}
}
