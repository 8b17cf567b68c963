package task

import (
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"remit/proof/reason"
)

// FuzzParse: no source crashes the parser; what it refuses, it explains; what
// it accepts, survives its own canonical form.
func FuzzParse(f *testing.F) {
	for _, dir := range []string{"valid", "invalid"} {
		entries, err := os.ReadDir(vectors + "/" + dir)
		if err != nil {
			f.Fatal(err)
		}
		for _, entry := range entries {
			src, err := os.ReadFile(vectors + "/" + dir + "/" + entry.Name())
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Add([]byte(fullPolicy))
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := Parse("fuzz.yaml", src)
		if err != nil {
			var problems Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("not a list of problems: %v", err)
			}
			for _, p := range problems {
				if info, known := reason.Lookup(p.Code); !known || info.Status != reason.Blocked {
					t.Errorf("code %q", p.Code)
				}
			}
		} else {
			sameAfterRoundTrip(t, c)
			if got := c.Envelope().Check([]WriteOp{{Path: ".git/config", Op: OpModify}}); len(got) == 0 {
				t.Error("a contract allows .git/config")
			}
		}
		if p, err := ParsePolicy("remit.yaml", src); err == nil {
			if _, err := Narrow(p.contract(), Flags{Allow: []string{"../x"}}); err == nil {
				t.Error("a policy makes an invalid flag valid")
			}
		}
		if c, err := FromIssue(src, "fuzz.md", nil); err == nil && !taskIDForm().MatchString(c.TaskID) {
			t.Errorf("task id %q", c.TaskID)
		}
		_, _ = ParseCanonical("contract.json", src)
	})
}

// FuzzEnvelope: no name and no glob crash the check; what an envelope accepts,
// it accepts without the glob, and a name that names git's data never passes.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range [][4]string{
		{"src/a.go", "src/**", "**/*.pem", ""}, {"a/.GIT/x", "**", "[", "b"}, {".g\u200cit/x", "**/*", "{a,b}", "../x"}, {"\xff/\n", "*/*", "?", "/etc"},
		{"a", "{a,b}{c,d}", "a[b-c]", "."}, {"CLAUDE~1/x", "**", "", "a/b"}, {"a//b", "**", "", ""}, {"..", "**", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, name, allow, deny, target string) {
		changes := []WriteOp{{Path: name, Op: OpSymlink, LinkTarget: target}, {Path: name, Op: OpRename, OldPath: target}}
		e := Envelope{AllowOps: Permissions(), AllowPaths: []string{allow}, DenyPaths: []string{deny}, AllowSymlinks: true, AllowSubmodules: true}
		for _, w := range changes {
			findings := e.Check([]WriteOp{w})
			for _, finding := range findings {
				if !utf8.ValidString(finding.Path) || !utf8.ValidString(finding.Detail) {
					t.Errorf("finding is no text: %q", finding)
				}
			}
			if len(findings) > 0 {
				continue
			}
			if strings.Contains("/"+strings.ToLower(name)+"/", "/.git/") || strings.HasPrefix(name, "/") || strings.Contains("/"+name+"/", "/../") {
				t.Errorf("%q passes", name)
			}
			without := e
			without.DenyPaths = nil
			if len(without.Check([]WriteOp{w})) > 0 {
				t.Errorf("%q passes only with %q denied", name, deny)
			}
		}
		for _, outer := range []string{allow, deny} {
			inner := compile(allow)
			if checkGlob(outer) == nil && !inner.invalid && covers(outer, allow) && badNameCode(name) == "" && inner.allows(name) && !compile(outer).allows(name) {
				t.Errorf("%q covers %q but not %q", outer, allow, name)
			}
		}
	})
}

func badNameCode(name string) reason.Code {
	code, _ := badName(name)
	return code
}
