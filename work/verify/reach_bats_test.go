package verify

import (
	"os"
	"strings"
	"testing"

	"remit/work/tree"
)

// TestReachBats: what takes the place of a command of the tests is a change of the tests.
func TestReachBats(t *testing.T) {
	t.Parallel()
	const test = "setup() {\n  source \"$BATS_TEST_DIRNAME/../lib/sq.sh\"\n  load helper\n  PATH=\"$BATS_TEST_DIRNAME/../bin:$PATH\"\n}\n@test \"sq\" { diff want got; }\n"
	base := files{"test/sq.bats": test, "test/helper.bash": "source lib/more.bash\n", "lib/sq.sh": "sq() { :; }\n", "lib/more.bash": "more() { :; }\n", "lib/other.sh": "other() { :; }\n", "bin/tab": "#!/bin/sh\n"}
	root, err := os.OpenRoot(base.write(t))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s := reach(root, []string{"bats test"}, DefaultTestPath)
	const bracket = "\nfunction [ { :; }\n"
	for p, tc := range map[string]struct {
		text  string
		found bool
	}{
		"lib/sq.sh": {base["lib/sq.sh"] + bracket, true}, "lib/more.bash": {base["lib/more.bash"] + bracket, true}, "lib/other.sh": {base["lib/other.sh"] + bracket, false},
		"bin/diff": {"#!/usr/bin/env python3\n", true}, "bin/other": {"#!/bin/sh\n", false}, "bin/gzip": {"#!/bin/sh\n", false}, "bin/tab": {"#!/bin/sh\necho\n", false},
	} {
		_, inBase := base[p]
		if why := s.shadows(root, fileOf(p, []byte(tc.text), true), inBase); (why != "") != tc.found {
			t.Errorf("%s: %q", p, why)
		}
	}
	if why := s.shadows(root, tree.Change{Path: "lib/sq.sh", Kind: tree.Delete}, true); strings.TrimSpace(why) != "" {
		t.Error(why)
	}
}
