package evidence

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"remit/proof/form"
	"remit/proof/record"
)

// SummaryForm is the form of PR_SUMMARY.md that runs state in run.opened. Since
// form 2 a forge acts on nothing in it, a resumed run says so, and it speaks of
// payments and tool calls only where there can be some. Since form 3 a part of the
// change without lines has none in it.
const SummaryForm = 3

func (r *run) renewed() bool { return r.opened.SummaryForm >= 2 }

// place is [HunkOfPatch.Place], as the form of the summary has it.
func (r *run) place(h HunkOfPatch) string {
	if r.opened.SummaryForm < 3 && h.First == 0 {
		return h.Path + ":0"
	}
	return h.Place()
}

// active are words on which a forge acts in running text: it calls a person who is
// mentioned, and links to issues, commits and addresses.
var active = form.Lazy(`[@#!~&$%^][\w"{]|\b[0-9a-f]{7,}\b|://|(?i:\bwww\.|\bGH-\d|\bmailto:)`)

// prose is [prose], with each active word in code, where nothing acts on it.
func (r *run) prose(s string) string {
	if !r.renewed() {
		return prose(s)
	}
	words := strings.Split(plainLine(s), " ")
	for i, w := range words {
		if active().MatchString(w) {
			words[i] = code(w)
		} else {
			words[i] = prose(w)
		}
	}
	return strings.Join(words, " ")
}

// titleRunes is how much of a title is shown.
const titleRunes = 200

// title is the first line of the task's title.
func (r *run) title() string {
	if !r.renewed() {
		return prose(r.opened.Title)
	}
	lines := markdownLines(strings.TrimSpace(r.opened.Title))
	title := cutRunes(lines[0], titleRunes)
	if len(lines) > 1 && title == lines[0] {
		title += " …"
	}
	return r.prose(title)
}

// mergeCalls says how often the agent says that it called a tool. A program that
// is no agent has no tools.
func (r *run) mergeCalls(b *strings.Builder, rc *Receipt, wall int64) {
	if r.checks() {
		return
	}
	if r.renewed() && r.opened.Engine.Name == "command" {
		b.WriteString("- Tool calls: the engine is a program, which reports none (absent)\n")
		return
	}
	fmt.Fprintf(b, "- Tool calls, as the agent reports them: %d", rc.Metrics.ToolCalls)
	// Calls that run side by side, or that are reported late, add up to more
	// than the engine's own time: such a sum says nothing.
	if spent := rc.Metrics.ToolLatencyMSTotal; spent > 0 && spent <= wall {
		fmt.Fprintf(b, ", %s in all", duration(spent))
	}
	b.WriteString("\n")
}

// mergePayments says what the proof of the change cost.
func (r *run) mergePayments(b *strings.Builder, rc *Receipt) {
	for _, p := range rc.Payments {
		switch {
		case !r.renewed():
			fmt.Fprintf(b, "- Proof of the change: %s %s, provider %s (observed)\n", satoshis(p.AmountMsats), p.Status, code(p.Proof.ProviderID))
		case r.budget != nil && r.budget.Executed == record.ExecutedHere:
			fmt.Fprintf(b, "- Proof of the change: bookkeeping on this machine, whose ledger has an entry that is %s; no money moves (observed)\n", p.Status)
		default:
			fmt.Fprintf(b, "- Proof of the change: %d msat %s in the ledger of the authority, provider %s (observed)\n", p.AmountMsats, p.Status, code(p.Proof.ProviderID))
		}
	}
}

// satoshis writes an amount of the ledger. Its three decimals are millisatoshi.
func satoshis(msats int64) string {
	if msats%1000 == 0 {
		return fmt.Sprintf("%d sat", msats/1000)
	}
	return fmt.Sprintf("%d.%03d sat", msats/1000, msats%1000)
}

// namesTests says whether a command has named its tests in both phases.
func (v *VerificationCompleted) namesTests() bool {
	return len(v.FailToPass)+v.PassToPass+len(v.PassToFail)+len(v.Missing) > 0
}

// mendedCommands are those that failed on the baseline and pass now.
func (r *run) mendedCommands() []string {
	base, head := r.phase("base"), r.phase("head")
	if base == nil || head == nil {
		return nil
	}
	var out []string
	for i := range min(len(base.Runs), len(head.Runs)) {
		if base.Runs[i].ExitCode != 0 && head.Runs[i].Passed {
			out = append(out, head.Runs[i].Command)
		}
	}
	return out
}

// mergeTests says what the change does to tests by name. A test that the change
// adds may count as fixed, when it could not be built before: it is listed as new.
func (r *run) mergeTests(b *strings.Builder) {
	v := r.verification
	fixed, made := v.FailToPass, 0
	if n := v.NewTests; n != nil {
		fresh := setOf(slices.Concat(n.FailWithout, n.PassWithout))
		fixed = slices.DeleteFunc(slices.Clone(fixed), func(t string) bool { return fresh[t] })
		made = len(n.FailWithout)
	}
	kind := "verified"
	switch {
	case v.Status != StatusPass:
		kind = "verified in the delivered tree, whose verdict is " + v.Status
	case v.Control.Status == ControlNone:
		kind = "verified by plain runs alone: see Control"
	}
	switch {
	case !v.namesTests() && len(r.mendedCommands()) > 0:
		fmt.Fprintf(b, "- Fixed: %s failed before and passes now. Its output does not name tests, so what was fixed is known by its exit code alone; a flag such as `-v` names them (%s)\n",
			names(r.mendedCommands()), kind)
	case !v.namesTests():
		b.WriteString("- Fixed: no command failed before, and none names its tests\n")
	case len(fixed) > 0:
		fmt.Fprintf(b, "- Fixed (failed before, pass now): %s: %s (%s)\n", count(len(fixed), "test"), names(fixed), kind)
	case made > 0:
		fmt.Fprintf(b, "- What is new: no test that was there before was failing; %s without the change and passes with it (verified)\n", noun(made, "new test fails", "new tests fail"))
	default:
		b.WriteString("- Fixed: no test that failed before passes now (verified)\n")
	}
	fmt.Fprintf(b, "- New or edited tests: %s\n", r.newTests(v.NewTests))
	if !v.namesTests() {
		return
	}
	fmt.Fprintf(b, "- Kept: %s passed before and pass now (verified)\n", count(v.PassToPass, "test"))
	fmt.Fprintf(b, "- Newly failing: %s. Not run any more: %s (verified)\n", names(v.PassToFail), names(v.Missing))
}

// DisplayPath is how a path of the repository stands in a document. A path is
// bytes and a document is UTF-8, so a path that is not plain text (characters
// that are unseen, not UTF-8, or a leading quote) is quoted as git quotes it: in double
// quotes, with \n, \t, \", \\ and octal escapes. Every path has one form and
// two paths never share one.
func DisplayPath(p string) string {
	if plainPath(p) {
		return p
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(p) {
		switch c := p[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func plainPath(p string) bool {
	if strings.HasPrefix(p, `"`) || !utf8.ValidString(p) {
		return false
	}
	return !strings.ContainsFunc(p, unseen)
}

// unseen are the characters that show nothing and change how the text around
// them is shown: controls (also those above 0x7f, which begin escape sequences
// on some terminals), line separators, and what turns the direction of writing
// round or has no width. The list is fixed, so that the form of a path does not
// depend on the version of Unicode that a program knows.
func unseen(c rune) bool {
	switch {
	case c < ' ', c >= 0x7f && c <= 0x9f, c == 0xad, c == 0x61c, c == 0xfeff,
		c >= 0x200b && c <= 0x200f, c >= 0x2028 && c <= 0x202e, c >= 0x2060 && c <= 0x206f:
		return true
	}
	return false
}

// CutText shortens text at a rune boundary and makes it valid UTF-8.
func CutText(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && text[limit]&0xC0 == 0x80 {
		limit--
	}
	return text[:limit] + "…"
}
