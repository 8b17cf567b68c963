package verify

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/proof/reason"
	"remit/work/verify/results"
)

// TestVaryingNames: what two runs of the base name alike is compared by its name,
// and everything else by a group that has as many tests as there.
func TestVaryingNames(t *testing.T) {
	t.Parallel()
	run := func(names ...string) map[string]results.Outcome {
		out := make(map[string]results.Outcome)
		for _, name := range names {
			name, failed := strings.CutSuffix(name, "!")
			out[name] = results.Pass
			if failed {
				out[name] = results.Fail
			}
		}
		return out
	}
	for _, tc := range []struct{ name, a, b, head, want string }{
		{"nothing varies", "p.A p.B", "p.A p.B", "p.A p.C", "p.A p.C"},
		{"only one run has more", "p.A p.B", "p.A", "p.A p.C", "p.A p.C"},
		{"an address", "t::x[<o_at_0x7f31>] t::y", "t::x[<o_at_0x7f32>] t::y", "t::x[<o_at_0x7f99>] t::y", "t::x[<o_at_*>] t::y"},
		{"two of a group", "p.T/1711 p.T/1712", "p.T/1811 p.T/1812", "p.T/1911 p.T/1912 p.T/1913", "p.T/* p.T/*_(2)"},
		{"one of a group fails", "p.T/1711 p.T/1712", "p.T/1811 p.T/1812", "p.T/1911 p.T/1912!", "p.T/*! p.T/*_(2)!"},
		{"one of a group is gone", "p.T/1711 p.T/1712", "p.T/1811 p.T/1812", "p.T/1911", "p.T/*"},
		{"a fixed name beside it", "p.T/80 p.T/1712", "p.T/80 p.T/1812", "p.T/80 p.T/1912 p.T/81", "p.T/* p.T/80"},
		{"a uuid", "p.T/9f1c2d3e-1111-4222-8333-abcdefabcdef", "p.T/0f1c2d3e-1111-4222-8333-abcdefabcdee", "p.T/aaaaaaaa-bbbb-4222-8333-abcdefabcdee", "p.T/*"},
		{"words", "f_>_g_>_alice f_>_h", "f_>_g_>_bob f_>_h", "f_>_g_>_carol f_>_h f_>_i", "f_>_g_* f_>_h f_>_i"},
		{"words, and what they hold", "p.T/ann p.T/ann/s p.U", "p.T/bob p.T/bob/s p.U", "p.T/eve p.T/eve/s p.U", "p.T_* p.T_*_(2) p.U"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			names := func(text string) []string {
				all := strings.Fields(text)
				for i := range all {
					all[i] = strings.ReplaceAll(all[i], "_", " ")
				}
				return all
			}
			v := learn(run(names(tc.a)...), run(names(tc.b)...))
			got := v.grouped(CommandResult{PerTest: run(names(tc.head)...)}).PerTest
			if want := run(names(tc.want)...); !maps.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
	if v := learn(run("p.A!", "p.B"), run("p.A", "p.B")); v == nil || !v.flaky["p.A"] {
		t.Errorf("%+v", v)
	}
}

// TestNamesThatVary: a test whose name is another one in each run is neither gone
// from the change nor fixed by it, and one that the change takes away is seen.
func TestNamesThatVary(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	needNode(t)
	const (
		head  = "const { test } = require('node:test')\nconst assert = require('node:assert')\nconst calc = require('./calc.js')\n\n"
		word  = "const word = () => [...String(process.hrtime.bigint())].map((d) => 'abcdefghij'[d]).join('')\n"
		fixed = "test('adds', () => {\n  assert.strictEqual(calc.add(2, 2), 4)\n})\n"
		clock = "test('subs at ' + process.hrtime.bigint(), () => {\n  assert.strictEqual(calc.sub(3, 2), 1)\n})\n"
		named = "test(word(), () => {\n  assert.strictEqual(calc.sub(5, 2), 3)\n})\n"
		fails = "test('adds at ' + process.hrtime.bigint(), () => {\n  assert.strictEqual(calc.add(5, 2), 7)\n})\n"
	)
	for i, tc := range []struct {
		name, tests string
		patch       files
		want        reason.Code
		fixed       []string
	}{
		{"a number", head + fixed + clock, nodeProject.honest, "", []string{"calc.test.js > adds"}},
		{"words", head + word + fixed + named + named, nodeProject.honest, "", []string{"calc.test.js > adds"}},
		{"what the base fails", head + fixed + fails, nodeProject.honest, "", []string{"calc.test.js > adds"}},
		{"one is taken away", head + fixed + clock + clock, nodeProject.honest.with(files{"calc.test.js": head + fixed + clock}), reason.BaseTestGone, nil},
		{"one is skipped", head + fixed + clock + clock, nodeProject.honest.with(files{"calc.test.js": head + fixed + clock + strings.Replace(clock, "test(", "test.skip(", 1)}), reason.BaseTestGone, nil},
	} {
		if !tally.ByTurn(t, i, 5) {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			base := nodeProject.base.with(files{"calc.test.js": tc.tests})
			v, log := verified(t, Plan{Lower: base.write(t), Patch: tc.patch.changes(), Commands: []string{"node --test"}})
			if tc.want != "" {
				if len(v.Findings) == 0 || v.Findings[0].Code != tc.want && v.Findings[0].Code != reason.VerifierTampering {
					t.Errorf("want %s, got %s\n%s", tc.want, explain(v), log)
				}
				return
			}
			if v.Status != StatusPass || !slices.Equal(v.FailToPass, tc.fixed) || len(v.Missing) > 0 {
				t.Errorf("%s fixed %q missing %q\n%s", explain(v), v.FailToPass, v.Missing, log)
			}
			if v.Control == nil || !v.Control.Made {
				t.Errorf("%+v", v.Control)
			}
		})
	}
}
