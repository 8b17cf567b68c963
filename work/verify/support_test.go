package verify

import (
	"slices"
	"testing"

	"remit/proof/reason"
)

// TestTestSupport: code that only tests use is treated like a test, and a
// vendor directory that the base does not have is a finding.
func TestTestSupport(t *testing.T) {
	t.Parallel()
	base := files{
		"go.mod":            "module example.com/m\n\ngo 1.26\n",
		"a.go":              "package m\n\nimport \"example.com/m/prod\"\n\nvar _ = prod.X\n",
		"a_test.go":         "package m\n\nimport (\n\t\"example.com/m/check\"\n\t\"example.com/m/prod\"\n)\n\nvar _, _ = check.X, prod.X\n",
		"check/check.go":    "package check\n\nimport \"testing\"\n\nvar X testing.TB\n",
		"prod/prod.go":      "package prod\n\nimport \"testing\"\n\nvar X = testing.Testing()\n",
		"alone/alone.go":    "package alone\n\nimport \"testing\"\n\nvar X testing.TB\n",
		"check/plain.go":    "package check\n",
		"vendored/README":   "no vendor directory\n",
		"sub/go.mod":        "module example.com/sub\n\ngo 1.26\n",
		"sub/vendor/a.go":   "package a\n",
		"sub/check/c.go":    "package check\n\nimport \"testing\"\n\nvar X testing.TB\n",
		"sub/sub_test.go":   "package sub\n\nimport \"example.com/sub/check\"\n\nvar _ = check.X\n",
		"sub/other_test.go": "package sub\n",
	}
	dir := base.write(t)
	for path, want := range map[string]bool{
		"check/check.go": true, "sub/check/c.go": true, "check/plain.go": false, "prod/prod.go": false, "alone/alone.go": false, "a.go": false, "check/new.go": false,
	} {
		o, err := lay(&Plan{Lower: dir, TestingDir: testingDir, Patch: files{path: "package x\n\nimport \"testing\"\n"}.changes(), Tests: RuleExtend, TestFiles: DefaultTestPath})
		if err != nil || slices.Contains(o.tests, path) != want {
			t.Errorf("%s: %v %q", path, err, o.tests)
		}
	}
	for path, want := range map[string]string{"vendor/modules.txt": string(reason.VerifierTampering), "sub/vendor/modules.txt": string(reason.VerifierTampering), "docs/modules.txt": ""} {
		for _, rule := range []string{RuleExtend, RuleProtect} {
			o, err := lay(&Plan{Lower: dir, TestingDir: testingDir, Patch: files{path: "# x\n"}.changes(), Tests: rule, TestFiles: DefaultTestPath})
			if err != nil || codes(o.findings) != want {
				t.Errorf("%s: %v %v", path, err, o.findings)
			}
		}
	}
}
