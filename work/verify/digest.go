package verify

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"remit/proof/canon"
)

// The verifier is identified by its own source: a verdict names the rules that
// made it, and two builds with the same digest judge alike. A test keeps the
// list complete.
//
//go:embed assign.go assign_status.go build_part.go classify.go collect.go config.go digest.go draw.go examine.go exits.go exitstatus.go framework.go goembed.go hide.go
//go:embed hints.go hunk/hunk.go hunk/lines.go hunk/read.go identity.go idle.go judge.go judge_run.go log.go named.go observe.go overlay.go ownsource.go
//go:embed paths.go phase.go plugins.go pool.go proof.go reach.go reach_bats.go reach_lists.go reach_made.go reach_make.go reach_sourced.go reach_text.go reader.go record.go resource.go result.go
//go:embed results/adapter.go results/augment.go results/bats.go results/bun.go results/cargo.go results/collect.go results/ctest.go
//go:embed results/deno.go results/detect.go results/dotnet.go results/gotest.go results/gotext.go results/gradle.go results/hooks.go
//go:embed results/hooks/mocha.cjs results/hooks/node.cjs results/hooks/nodetest.cjs results/hooks/phpunit.php
//go:embed results/hooks/ruby/minitest/remit_plugin.rb results/jest.go
//go:embed results/junit.go results/lines.go results/minitest.go results/mocha.go results/nextest.go results/nodetest.go results/phpunit.go results/pytest.go
//go:embed results/results.go results/rspec.go results/surefire.go results/tap.go results/unittest.go results/vitest.go results/words.go
//go:embed rewrite.go run.go rust.go services.go stream.go suite.go suitetree.go support.go titles.go transitions.go twin/brace_lex.go
//go:embed twin/choices.go twin/comments.go twin/go_assert.go twin/go_banks.go twin/go_cond.go twin/go_draw.go twin/go_edit.go twin/go_expect.go
//go:embed twin/go_forms.go twin/go_parse.go twin/go_reach.go twin/go_scope.go twin/go_styles.go twin/go_testing.go twin/go_traced.go
//go:embed twin/go_values.go twin/go_walk.go twin/js_asserts.go twin/js_core.go twin/js_edit.go twin/js_fits.go twin/js_lex.go
//go:embed scripts.go twin/sh_asserts.go twin/sh_body.go twin/sh_parse.go twin/sh_shapes.go twin/c_asserts.go twin/c_fails.go twin/c_lex.go twin/c_parse.go twin/c_shapes.go twin/java_asserts.go twin/java_lex.go twin/java_parse.go twin/java_shapes.go
//go:embed twin/js_markup.go twin/js_parse.go twin/js_render.go twin/js_shapes.go twin/js_shapes_fail.go twin/js_shapes_turn.go
//go:embed twin/js_sites.go twin/js_tests.go twin/js_unquote.go twin/js_values.go twin/literal.go twin/php_asserts.go twin/php_lex.go
//go:embed twin/php_parse.go twin/php_shapes.go twin/py_bind.go twin/py_core.go twin/py_edit.go twin/py_literal.go twin/py_other.go
//go:embed twin/py_render.go twin/py_shapes.go twin/py_shapes_fail.go twin/py_sites.py twin/py_source.go twin/rows.go twin/rs_asserts.go
//go:embed twin/rs_edit.go twin/rs_expect.go twin/rs_lex.go twin/rs_macro.go twin/rs_parse.go twin/rs_parts.go twin/rs_shapes.go twin/rs_statements.go
//go:embed twin/rs_values.go twin/ruby_asserts.go twin/ruby_lex.go twin/ruby_minitest.go twin/ruby_minitest_asserts.go
//go:embed twin/ruby_minitest_shapes.go twin/ruby_parse.go twin/ruby_shapes.go
//go:embed twin/ruby_text.go twin/script_edit.go twin/script_tokens.go twin/sketch.go twin/test_body.go twin/text.go twin/trace.go twin/twin.go twinrun.go
//go:embed shell/counters.go shell/hazards.go shell/lasting.go shell/names.go shell/shadow.go shell/shell.go shell/sources.go
//go:embed unbuilt.go unseen.go varying.go verify.go witness.go
var source embed.FS

// Digest is "sha256:…" over name, version and source of the verifier.
func Digest() string { return digest() }

var digest = sync.OnceValue(func() string {
	var names []string
	_ = fs.WalkDir(source, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, p)
		}
		return err
	})
	slices.Sort(names)
	var b strings.Builder
	b.WriteString(Name + " " + Version + "\n")
	for _, name := range names {
		text, err := source.ReadFile(name)
		if err != nil {
			panic("verify: an embedded file cannot be read: " + err.Error())
		}
		b.WriteString(canon.Digest(text) + "  " + name + "\n")
	}
	return canon.Digest([]byte(b.String()))
})
