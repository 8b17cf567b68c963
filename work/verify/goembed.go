package verify

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"remit/proof/reason"
	"remit/work/tree"
)

// embedsTests finds Go files of the patch that embed test files of the tree:
// the program could read in them what the verifier has written there. A pattern
// that the base's version of the file has is not the patch's doing.
func embedsTests(root *os.Root, patch, heldOut []tree.Change) ([]reason.Finding, error) {
	var findings []reason.Finding
	for _, c := range patch {
		if c.Kind != tree.File || path.Ext(c.Path) != ".go" || c.Open == nil {
			continue
		}
		patterns, err := embedPatterns(c.Open)
		if err != nil {
			return nil, reason.Errorf(reason.InfrastructureFault, "reading %q of the patch: %w", c.Path, err)
		}
		if len(patterns) == 0 {
			continue
		}
		before, err := embedPatterns(func() (io.ReadCloser, error) { return root.Open(c.Path) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			before = nil // in its place is something else
		}
		patterns = slices.DeleteFunc(patterns, func(p string) bool { return slices.Contains(before, p) })
		tests, err := testsBelow(root, path.Dir(c.Path), slices.Concat(patch, heldOut))
		if err != nil {
			return nil, err
		}
		for _, p := range patterns {
			if i := slices.IndexFunc(tests, func(test string) bool { return embeds(p, test) }); i >= 0 {
				findings = append(findings, reason.Finding{Code: reason.VerifierTampering, Path: c.Path,
					Detail: "the patch embeds a test file: //go:embed " + strconv.Quote(p) + " matches " + strconv.Quote(tests[i])})
				break
			}
		}
	}
	return findings, nil
}

// embedPatterns are the patterns of the //go:embed lines of a Go file.
func embedPatterns(open func() (io.ReadCloser, error)) ([]string, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, 64<<10)
	var patterns []string
	for begin := true; ; {
		line, more, err := lines.ReadLine()
		if errors.Is(err, io.EOF) {
			return patterns, nil
		}
		if err != nil {
			return nil, err
		}
		// A directive stands at the beginning of a line; what is longer than the
		// buffer is read up to its end.
		if rest, ok := strings.CutPrefix(strings.TrimLeft(string(line), " \t\r"), "//go:embed"); ok && begin && strings.TrimLeft(rest, " \t") != rest {
			patterns = append(patterns, embedWords(rest)...)
		}
		begin = !more
	}
}

// embedWords splits the patterns of one line: words, or Go strings.
func embedWords(rest string) []string {
	var words []string
	for {
		rest = strings.TrimLeft(rest, " \t\r")
		if rest == "" {
			return words
		}
		if rest[0] == '"' || rest[0] == '`' {
			if quoted, err := strconv.QuotedPrefix(rest); err == nil {
				word, _ := strconv.Unquote(quoted) // a quoted prefix is one
				words, rest = append(words, word), rest[len(quoted):]
				continue
			}
		}
		word, after, _ := strings.Cut(rest, " ")
		words, rest = append(words, strings.TrimRight(word, "\t\r")), after
	}
}

// embeds says whether a pattern takes a file in, both relative to the directory
// of the package. A directory that is matched stands for all below it, but for
// names with a dot or an underscore in front unless the pattern begins with
// all:.
func embeds(pattern, file string) bool {
	pattern, all := strings.CutPrefix(pattern, "all:")
	segments := strings.Split(file, "/")
	for i := range segments {
		ok, err := path.Match(path.Clean(pattern), strings.Join(segments[:i+1], "/"))
		if err != nil {
			return false // the build refuses it
		}
		hidden := func(s string) bool { return strings.HasPrefix(s, ".") || strings.HasPrefix(s, "_") }
		if (ok || pattern == ".") && (all || !slices.ContainsFunc(segments[i+1:], hidden)) {
			return true
		}
	}
	return false
}

// testsBelow lists the Go test files below a directory, relative to it: of the
// base, and of the changes.
func testsBelow(root *os.Root, dir string, changes []tree.Change) ([]string, error) {
	var tests []string
	if info, err := root.Lstat(dir); err == nil && info.IsDir() {
		files, err := filesBelow(root, dir)
		if err != nil {
			return nil, reason.Errorf(reason.InfrastructureFault, "reading the baseline below %q: %w", dir, err)
		}
		tests = files
	}
	for _, c := range changes {
		if c.Kind != tree.Delete && (dir == "." || strings.HasPrefix(c.Path, dir+"/")) {
			tests = append(tests, c.Path)
		}
	}
	tests = slices.DeleteFunc(tests, func(p string) bool { return !strings.HasSuffix(p, "_test.go") })
	for i, p := range tests {
		if dir != "." {
			tests[i] = strings.TrimPrefix(p, dir+"/")
		}
	}
	slices.Sort(tests)
	return slices.Compact(tests), nil
}
