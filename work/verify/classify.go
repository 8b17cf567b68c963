package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"remit/proof/reason"
	"remit/work/tree"
)

// inadmissible is what no patch may hold.
func inadmissible(c tree.Change) *reason.Finding {
	switch {
	case !tree.ValidPath(c.Path):
		return &reason.Finding{Code: reason.PatchInvalid, Path: c.Path, Detail: "the path cannot be part of a tree"}
	case c.Kind != tree.File && c.Kind != tree.Symlink && c.Kind != tree.Delete:
		return &reason.Finding{Code: reason.PatchInvalid, Path: c.Path, Detail: fmt.Sprintf("a %s (%s) cannot be part of a patch", c.Kind, c.Note)}
	case c.Kind == tree.Symlink && escapes(c.Path, c.Target):
		return &reason.Finding{Code: reason.VerifierTampering, Path: c.Path, Detail: fmt.Sprintf("a symbolic link out of the tree, to %q", c.Target)}
	}
	return nil
}

// escapes says whether a link leaves the tree by its text.
func escapes(p, target string) bool {
	joined := path.Join(path.Dir(p), target)
	return path.IsAbs(target) || joined == ".." || strings.HasPrefix(joined, "../")
}

// classify says whether a change is to tests or to runner configuration, and
// what is wrong with it under protect and extend. Why a change counts as one of tests is
// kept where its name does not say so.
func (o *overlays) classify(root *os.Root, p *Plan, c tree.Change, inBase bool, steers *steering) (bool, *reason.Finding) {
	tampering := func(detail string) *reason.Finding {
		if p.Tests != RuleExtend { // under protect it is left out
			return nil
		}
		return &reason.Finding{Code: reason.VerifierTampering, Path: c.Path, Detail: detail}
	}
	if vendors(root, c) {
		return false, &reason.Finding{Code: reason.VerifierTampering, Path: c.Path, Detail: "the patch adds a vendor directory, from which the tests would be built"}
	}
	if at := frameworkPackage().FindStringSubmatch(c.Path); at != nil && !inBase && c.Kind != tree.Delete && !ownFramework(root, c.Path, at[1]) {
		return true, tampering("the patch adds a class in a package of a test framework")
	}
	if runnerConfig(c.Path) {
		if !inBase && c.Kind != tree.Delete {
			return true, tampering("the patch adds configuration of the test runner")
		}
		return true, nil
	}
	if mixed, separable := mixedConfig(c.Path); mixed {
		if before, after := partBefore(root, c.Path, steers.commands), partAfter(c, steers.commands); before != after && !onlyAdds(c.Path, before, after) {
			if separable {
				if !inBase {
					return true, tampering("the patch adds configuration of the test runner")
				}
				return true, nil
			}
			return false, &reason.Finding{Code: reason.VerifierTampering, Path: c.Path, Detail: "the patch changes how the tests are built or run"}
		}
	}
	if inBase && makefile().MatchString(c.Path) {
		before, err1 := textBefore(root, c.Path)
		after, err2 := textAfter(c)
		if err1 == nil && err2 == nil && addsSources(string(before), string(after)) {
			return false, nil
		}
	}
	if at, _, is := strings.Cut("/"+c.Path, "/buildSrc/"); is && besideOne(root, strings.TrimPrefix(at, "/"), gradleFiles) {
		return true, nil // its code is a part of every build script
	}
	if isGemfile(c.Path) && inBase || isGradle(c.Path) && (inBase || besideOne(root, path.Dir(c.Path), gradleFiles)) {
		return partBefore(root, c.Path, nil) != partAfter(c, nil), nil
	}
	if p.isTest(c.Path) || inBase && testSupport(root, c.Path) {
		return true, nil
	}
	if why := steers.shadows(root, c, inBase); why != "" {
		return true, tampering(why)
	}
	if why := takesAsserts(root, c); why != "" && p.Tests != RuleFree {
		return false, &reason.Finding{Code: reason.VerifierTampering, Path: c.Path, Detail: why}
	}
	if steers.readByShells(c.Path, inBase) {
		if why := steers.takesShell(root, c, p.isTest); why != "" {
			return true, tampering("the shell that runs the tests reads it, and " + why)
		}
		return false, nil
	}
	covers := steers.covers(c.Path, inBase)
	if covers && c.Kind != tree.Delete && !makefile().MatchString(c.Path) && !cmakeFile().MatchString(c.Path) {
		o.because = append(o.because, c.Path+" counts as a part of the tests, since the command runs it, or what it runs does and it has the name or the directory of a test or a check, and was put back")
	}
	return covers || !inBase && steers.brings(root, c.Path), nil
}

// ownFramework says whether the base has a package of a test framework where a path
// lies, below a directory: it is the project of one.
func ownFramework(root *os.Root, p, below string) bool {
	first, rest, _ := strings.Cut(strings.TrimPrefix(p, below), "/")
	second, _, _ := strings.Cut(rest, "/")
	_, err := root.Lstat(path.Join(below, first, second))
	return err == nil && first != "META-INF"
}

// partBefore and partAfter are the runner's part of a file in the base and
// under the patch; a file that cannot be read has a part of its own.
func partBefore(root *os.Root, p string, commands []string) string {
	src, err := textBefore(root, p)
	if err != nil {
		return "unreadable in the base"
	}
	return runnerPart(p, src, commands)
}

func partAfter(c tree.Change, commands []string) string {
	src, err := textAfter(c)
	if err != nil {
		return "unreadable in the patch"
	}
	return runnerPart(c.Path, src, commands)
}

// textBefore and textAfter are a file in the base and under the patch, nil where it is
// not there.
func textBefore(root *os.Root, p string) ([]byte, error) {
	f, err := root.Open(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readCapped(f)
}

func textAfter(c tree.Change) ([]byte, error) {
	switch {
	case c.Kind == tree.Delete:
		return nil, nil
	case c.Kind != tree.File || c.Open == nil:
		return nil, errors.New("it is no file")
	}
	f, err := c.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readCapped(f)
}
