package remit_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const threatModel = "docs/threat-model.md"

// leastClaims guards against a document, or a reading of it, that claims
// nothing.
const leastClaims = 60

// claim is one row of a table of the threat model: a defence and its tests.
type claim struct {
	line  int
	what  string
	tests []string
}

// TestThreatModel holds every claim of the threat model to a test that exists.
func TestThreatModel(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.FromSlash(threatModel))
	if err != nil {
		t.Fatal(err)
	}
	claims, problems := threatClaims(string(text))
	for _, c := range claims {
		for _, test := range c.tests {
			if err := testExists(test); err != nil {
				problems = append(problems, fmt.Sprintf("line %d: %v", c.line, err))
			}
		}
	}
	for _, p := range problems {
		t.Errorf("%s: %s", threatModel, p)
	}
	if len(claims) < leastClaims {
		t.Errorf("%s: %d claims, want at least %d", threatModel, len(claims), leastClaims)
	}
	for _, section := range []string{"## Assets", "## Attackers", "## What each wing trusts", "## What is not defended"} {
		if !strings.Contains(string(text), "\n"+section+"\n") {
			t.Errorf("%s has no section %q", threatModel, section)
		}
	}
}

// threatClaims reads the tables whose last column is "test".
func threatClaims(text string) (claims []claim, problems []string) {
	columns := 0 // of the table of claims that the line is in, 0 outside
	for i, line := range strings.Split(text, "\n") {
		row, isRow := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !isRow {
			columns = 0
			continue
		}
		cells := strings.Split(strings.TrimSuffix(row, "|"), "|")
		last := strings.TrimSpace(cells[len(cells)-1])
		switch {
		case columns == 0 && last == "test":
			columns = len(cells)
		case columns == 0, strings.Trim(row, "|-: ") == "":
		default:
			c := claim{line: i + 1, what: strings.TrimSpace(cells[0])}
			for part := range strings.SplitSeq(last, ",") {
				part = strings.TrimSpace(part)
				if name := strings.Trim(part, "`"); name != "" && part == "`"+name+"`" && !strings.Contains(name, "`") {
					c.tests = append(c.tests, name)
				}
			}
			if len(cells) != columns || len(c.tests) != strings.Count(last, ",")+1 || slices.ContainsFunc(cells, func(s string) bool { return strings.TrimSpace(s) == "" }) {
				problems = append(problems, fmt.Sprintf("line %d: want an attack, a defence and tests in backquotes, separated by commas", c.line))
			}
			claims = append(claims, c)
		}
	}
	return claims, problems
}

// testExists looks for directory:TestName, or for a script.
func testExists(name string) error {
	dir, function, isFunction := strings.Cut(name, ":")
	if !isFunction {
		if path.Ext(name) != ".txtar" {
			return fmt.Errorf("%q is neither directory:TestName nor a script", name)
		}
		info, err := os.Lstat(filepath.FromSlash(name))
		if err != nil || !info.Mode().IsRegular() {
			return fmt.Errorf("there is no script %s", name)
		}
		return nil
	}
	if !regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`).MatchString(function) {
		return fmt.Errorf("%q is no name of a test", function)
	}
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		return err
	}
	defined := regexp.MustCompile(`(?m)^func ` + function + `\(\w+ \*testing\.[TF]\)\s*\{`)
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if defined.Match(src) {
			return nil
		}
	}
	return fmt.Errorf("there is no %s in %s", function, dir)
}

// TestThreatModelCanFail plants claims that no test backs.
func TestThreatModelCanFail(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"work/nowhere:TestLayering", ".:TestNothing", ".:TestLayer", ".:Layering", "docs/threat-model.md", "cmd/none.txtar", "cmd:", ""} {
		if testExists(name) == nil {
			t.Errorf("%q is taken for a test", name)
		}
	}
	for _, name := range []string{".:TestLayering", "cmd/remit/testdata/script/attacks.txtar"} {
		if err := testExists(name); err != nil {
			t.Error(err)
		}
	}
	const head = "| attack | defence | test |\n|---|---|---|\n"
	for _, row := range []string{"| a | b | |", "| a | b | TestX |", "| a | b | `x:TestX`, y |", "| a | `x:TestX` |", "| a | | `x:TestX` |", "| a | b | `x:TestX` `y:TestY` |"} {
		if claims, problems := threatClaims(head + row + "\n"); len(claims) != 1 || len(problems) != 1 {
			t.Errorf("%s: %d claims, problems %v", row, len(claims), problems)
		}
	}
	claims, problems := threatClaims("| x | y |\n|---|---|\n| a | b |\n\n" + head + "| a | b | `x:TestX`, `y.txtar` |\n")
	if len(claims) != 1 || len(problems) != 0 || !slices.Equal(claims[0].tests, []string{"x:TestX", "y.txtar"}) || claims[0].line != 7 {
		t.Errorf("%+v, %v", claims, problems)
	}
}
