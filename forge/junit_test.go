//test:plain-package It only computes: there is one goroutine.

package forge

import (
	"bytes"
	"encoding/xml"
	"path/filepath"
	"testing"
)

// TestJUnit: what is counted is the change. A command that failed before it does
// not count as a failure, and a run that does not pass has one.
func TestJUnit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name            string
		tests, failures int
		before          string
	}{
		{"controlled", 5, 0, "1"},
		{"fail", 5, 3, "1"},
		{"blocked", 1, 1, ""},
	} {
		var out bytes.Buffer
		if err := JUnit(&out, filepath.Join("../proof/evidence/testdata/golden", tc.name)); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Suites   []struct {
				Tests      int        `xml:"tests,attr"`
				Properties []property `xml:"properties>property"`
				Cases      []testCase `xml:"testcase"`
			} `xml:"testsuite"`
		}
		if err := xml.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		before, sum := "", 0
		for _, s := range got.Suites {
			sum += len(s.Cases)
			for _, p := range s.Properties {
				if p.Name == "base.exit_code" {
					before = p.Value
				}
			}
		}
		if got.Tests != tc.tests || sum != tc.tests || got.Failures != tc.failures || before != tc.before {
			t.Errorf("%s: %d tests, %d failures, exit status before %q\n%s", tc.name, got.Tests, got.Failures, before, &out)
		}
	}
}
