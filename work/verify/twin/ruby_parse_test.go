package twin

import (
	"strings"
	"testing"
)

// TestRubyRefuses: a text that cannot be read for sure is an error.
func TestRubyRefuses(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"open string": "'a", "open text": `"a#{b`, "open bracket": "f(", "wrong bracket": "f(]", "closing": "end", "open block": "it 'a' do", "open heredoc": "a = <<~A\nb\n",
		"open comment": "=begin\na\n", "carriage returns": "a\r\nb\r\n", "its own end": "END { f }", "its own beginning": "BEGIN { f }",
		"character": "a \x01 b", "depth": strings.Repeat(`"#{`, 500), "too long": strings.Repeat(" ", maxScriptSource+1),
	} {
		if f, err := ParseRuby("a_spec.rb", []byte(src)); err == nil {
			t.Errorf("%s: %s", name, summary(f))
		}
	}
}

// TestRubyParse: what is an example, what it is called, and what of it can be edited.
func TestRubyParse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ src, want string }{
		"an example":         {"describe A do\n it('b') { expect(f).to eq 1 }\nend", "A b 1/1/2"},
		"outside of a group": {"it('b') { f }\ndef it(x) = x", ""},
		"of a class":         {"RSpec.describe A::B do\n describe '#c' do\n  it 'd' do\n   x\n  end\n end\nend", "A::B#c d 0/0/2"},
		"a title is made":    {"describe 'a' do\n [1].each { |n| it(\"b #{n} c\") { expect(n).not_to be_nil } }\nend", "a b * c 1/0/2"},
		"without a title":    {"describe 'a' do\n it { is_expected.to be_b }\n it { is_expected.to eq(1) }\nend", "a example * 2/1/4"},
		"skipped":            {"describe 'a' do\n xit('b') { f }\n it('c', :skip) { f }\n it 'd'\nend", "a b: it is skipped; a c: it is skipped"},
		"shared":             {"shared_examples 'a' do\n it('b') { f }\nend\ndescribe 'c' do\n it_behaves_like 'a'\nend", ""},
		"a method of it":     {"describe 'a' do\n it('b') { x.it('c') { expect(1).to eq(n) } }\nend", "a b 1/1/2"},
	} {
		if got := summary(mustParseRuby(t, tc.src)); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
