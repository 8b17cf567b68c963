package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/reason"
)

// opening is what a user does to open the gates that stopped a run: lines for
// the policy, commands, and flags for the next try.
type opening struct {
	policy, commands, flags []string
}

// admitting finds the command of a hint.
var admitting = form.Lazy("`(remit admit [^`]*)`")

// openingOf reads it out of the blockers of a run. An engine that the policy
// switches off by name is not switched on by a hint, and neither is a decision
// against a build or a model undone.
func (f *runFlags) openingOf(rep *evidence.Report) (o opening, closed int) {
	for _, b := range rep.Blockers {
		if b.Evidence != evidence.EligibilityFile || b.Code == reason.GateMissing {
			continue
		}
		closed++
		switch b.Code {
		case reason.EngineNotEnabled:
			if b.Hint != "" && strings.HasPrefix(b.Hint, "set ") {
				o.policy = append(o.policy, fmt.Sprintf("engines: {%s: {enabled: true}}", rep.Backend))
			}
		case reason.NetworkNotAllowed:
			o.policy = append(o.policy, "network: gateway")
		case reason.ModeExceedsStage:
			o.flags = append(o.flags, "--mutation-mode "+task.CopiedFixture.String())
		case reason.ApprovalMissing:
			o.flags = append(o.flags, "--approve")
		case reason.SourceNotAdmitted, reason.ModelNotAdmitted, reason.ModelMismatch:
			if m := admitting().FindStringSubmatch(b.Hint); m != nil && strings.HasPrefix(b.Hint, "once ") {
				o.commands = append(o.commands, f.withProgram(m[1]))
			}
		}
	}
	return o, closed
}

// withProgram has a decision be about the program that the user named: evidence
// does not say where that is.
func (f *runFlags) withProgram(command string) string {
	const source = "remit admit source --engine "
	if f.model.bin == "" || !strings.HasPrefix(command, source) {
		return command
	}
	engine, rest, _ := strings.Cut(strings.TrimPrefix(command, source), " ")
	return source + engine + " --bin " + shellWord(f.model.bin) + " " + strings.TrimPrefix(rest, "--bin PROGRAM ")
}

// printOpening prints what opens all gates at once, as one block to paste.
func (f *runFlags) printOpening(w io.Writer, rep *evidence.Report) {
	o, closed := f.openingOf(rep)
	if closed < 2 || len(o.policy)+len(o.commands)+len(o.flags) == 0 {
		return // the hint says it
	}
	fmt.Fprintf(w, "\n%d gates are closed. This opens them; read it before you paste it:\n", closed)
	file := filepath.Join(f.repo, task.PolicyFile)
	text, _ := os.ReadFile(file) // without one, nothing is in it
	for _, line := range o.policy {
		key, _, _ := strings.Cut(line, ":")
		stated := regexp.MustCompile(`(?m)^` + key + `\s*:`).Match(text)
		switch {
		case key != "engines" && f.task != "":
			fmt.Fprintf(w, "  # in %s: %s\n", plain(f.task), line)
		case stated:
			fmt.Fprintf(w, "  # in %s: %s\n", plain(file), line)
		default:
			fmt.Fprintf(w, "  echo %s >>%s\n", shellWord(line), plain(shellWord(file)))
		}
	}
	for _, command := range o.commands {
		fmt.Fprintf(w, "  %s\n", plain(command))
	}
	again := "# then run again"
	if len(o.flags) > 0 {
		again += " with " + strings.Join(o.flags, " ")
	}
	fmt.Fprintf(w, "  %s\n", again)
}

// plainWord needs no quotes in a shell.
var plainWord = form.Lazy(`^[A-Za-z0-9_./@%+=:,-]+$`)

// shellWord writes a text as one word of a shell.
func shellWord(text string) string {
	if plainWord().MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
