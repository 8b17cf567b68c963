package evidence

import (
	"fmt"
	"strings"

	"remit/proof/form"
	"remit/proof/record"
)

// SummaryForm is the form of PR_SUMMARY.md that runs state in run.opened. Since
// form 2 a forge acts on nothing in it, a resumed run says so, and it speaks of
// payments and tool calls only where there can be some.
const SummaryForm = 2

func (r *run) renewed() bool { return r.opened.SummaryForm >= SummaryForm }

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
