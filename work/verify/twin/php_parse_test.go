package twin

import (
	"strings"
	"testing"
)

// TestPHPRefuses: a text that cannot be read for sure is an error.
func TestPHPRefuses(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"open string": "'a", "open text": `"a{$b`, "open comment": "/* a", "open bracket": "f(", "wrong bracket": "f(]", "closing": "}", "open heredoc": "$a = <<<A\nb\n",
		"its own source": "__halt_compiler();", "markup": "?>\n<p>", "two namespaces": "namespace A;\nnamespace B;\n", "a namespace in braces": "namespace A { f(); }",
		"a carriage return in a comment": "// a\rf();\n", "character": "a \x01 b", "depth": strings.Repeat(`"{$a[`, 500), "too long": strings.Repeat(" ", maxScriptSource+1),
	} {
		if f, err := ParsePHP([]byte("<?php\n" + src)); err == nil {
			t.Errorf("%s: %s", name, summary(f))
		}
	}
	if _, err := ParsePHP([]byte("<p>\n<?php f();")); err == nil {
		t.Error("markup in front")
	}
}

// TestPHPParse: what is a test, and what of it can be edited.
func TestPHPParse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ src, want string }{
		"a test":            {"class A extends TestCase { function testA() { $this->assertSame(1, f()); } }", "A::testA 1/1/2"},
		"no class of tests": {"class A { function testA() { $this->assertSame(1, f()); } }\nfunction testB() {}", ""},
		"abstract":          {"abstract class A extends TestCase { function testA() { f(); } }\ntrait B { function testB() {} }", ""},
		"in a namespace":    {"namespace A\\B;\nfinal class C extends TestCase { #[Test] public function it() { f(); } }", "A.B.C::it 0/0/2"},
		"no test":           {"class A extends TestCase { static function testA() {} private function testB() {} function rows() { return []; } }", ""},
		"waits":             {"class A extends TestCase { function testA() { $this->expectException(E::class); f(); } }", "A::testA 0/0/2"},
		"depends":           {"class A extends TestCase { function testA() { return 1; }\n/** @depends testA */\nfunction testB($a) { f(); } }", "A::testA: another test depends on it; A::testB 0/0/2"},
		"a generator":       {"class A extends TestCase { function testA() { yield 1; } }", "A::testA: it is a generator"},
	} {
		if got := summary(mustParsePHP(t, "<?php\n"+tc.src)); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
