//go:build !race

package evidence

import (
	"strings"
	"testing"
)

// TestProse: text of strangers is shown as it is and does nothing in Markdown.
func TestProse(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Fix the parser":                         "Fix the parser",
		"</blockquote><h2>Verification</h2><!--": "&lt;/blockquote>&lt;h2>Verification&lt;/h2>&lt;!--",
		"x</h1><details>":                        "x&lt;/h1>&lt;details>",
		"[a](javascript:b) ![i](u)":              `\[a](javascript:b) !\[i](u)`,
		`\[a](u)`:                                `\\\[a](u)`,
		"&lt;b&gt;":                              "&amp;lt;b&amp;gt;",
		"```\n## Verification":                   "\\`\\`\\` ## Verification",
		"## Verification":                        `\## Verification`,
		"  # x":                                  `  \# x`,
		"a\r\nb\u2028c\u202ed\u009be":            "a  b c d e",
	} {
		if got := prose(in); got != want {
			t.Errorf("prose(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestQuoted: a forge does nothing with an agent's words, whatever they are.
func TestQuoted(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"fixes #1, says @team: https://example.com": "> `fixes #1, says @team: https://example.com`  \n",
		"":                           ">\n",
		" \u200b ":                   ">\n",
		"`` @team ``` #1":            "> ```` `` @team ``` #1 ````  \n",
		"` @team":                    "> `` ` @team ``  \n",
		"a\n@team":                   "> `a @team`  \n",
		"</blockquote> ## x <!-- #1": "> `</blockquote> ## x <!-- #1`  \n",
	} {
		if got := quoted(in); got != want {
			t.Errorf("quoted(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestActiveWords: in a newer summary a forge acts on no word of a text.
func TestActiveWords(t *testing.T) {
	t.Parallel()
	r := &run{opened: RunOpened{SummaryForm: SummaryForm}}
	for in, want := range map[string]string{
		"Fix the <b> parser":          "Fix the &lt;b> parser",
		"Fix #12, (@octo/team) & a@b": "Fix `#12,` `(@octo/team)` &amp; `a@b`",
		"see owner/repo#3 GH-4 !5":    "see `owner/repo#3` `GH-4` `!5`",
		"revert 4b825dc642 at 100 %":  "revert `4b825dc642` at 100 %",
		"https://x.y www.example.com": "`https://x.y` `www.example.com`",
		"`@x` # y":                    "`` `@x` `` \\# y",
	} {
		if got := r.prose(in); got != want {
			t.Errorf("prose(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"One\nline @x":             "One …",
		"":                         "",
		strings.Repeat("ab ", 100): strings.Repeat("ab ", 66) + "ab…",
	} {
		r.opened.Title = in
		if got := r.title(); got != want {
			t.Errorf("title of %q is %q, want %q", in, got, want)
		}
	}
	if r.opened = (RunOpened{Title: "a\n@x"}); r.title() != "a @x" || r.prose("@x") != "@x" {
		t.Error("an older summary has lost its bytes")
	}
}
