package verify

import (
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/work/sandbox"
)

// TestHeldOutOfRunners: a held-out test of a runner whose tests cannot be edited
// judges the change by its name, and is known to be held out, also from a record.
func TestHeldOutOfRunners(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	sb := realSandbox(t)
	var node runnerProject
	for _, p := range runnerProjects() {
		if p.name == "node" {
			node = p
		}
	}
	dir := node.base.write(t)
	needs(t, sb, dir, node.needs)
	const hidden = "const { it } = require('node:test')\nconst assert = require('node:assert')\nit('adds more', () => assert.strictEqual(require('../calc.js').add(3, 4), 7))\n"
	plan := Plan{
		Lower: dir, TestingDir: testingDir, Commands: []string{"node --test"}, Limits: sandbox.Limits{Wall: 2 * time.Minute},
		HeldOut: files{"test/hidden.test.js": hidden}.changes(),
	}
	before, err := Base(t.Context(), sb, plan)
	if err != nil {
		t.Fatal(err)
	}
	passing := plan // a base that failed once is not recorded
	passing.Lower = files{"package.json": "{}\n", "calc.js": jsGood}.write(t)
	good, err := Base(t.Context(), sb, passing)
	if err != nil {
		t.Fatal(err)
	}
	text, err := good.Record()
	if err != nil {
		t.Fatal(err)
	}
	read, err := ReadRecord(text, plan.Commands)
	if err != nil {
		t.Fatal(err)
	}
	const id = "test/hidden.test.js > adds more"
	for _, base := range []*PhaseResult{before, read} {
		if origin, file := base.Place(id, 0); origin != OriginHeldOut || file != "test/hidden.test.js" {
			t.Errorf("%s is %s in %q", id, origin, file)
		}
	}
	if origin, _ := before.Place("test/calc.test.js > calc > adds", 0); origin != OriginBase {
		t.Errorf("a test of the base is %s", origin)
	}
	for name, patch := range map[string]files{StatusPass: node.honest, "fail": {"calc.js": "exports.add = () => 4\nexports.sub = (a, b) => a - b\n"}} {
		p := plan
		p.Patch, p.Before = patch.changes(), before
		after, err := Head(t.Context(), sb, p)
		if err != nil {
			t.Fatal(err)
		}
		if v := Judge(before, after, ""); v.Status != name {
			t.Errorf("want %s: %s", name, explain(v))
		}
	}
}
