package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/harness"
)

// actionsLog is the log of a CI job of GitHub or Gitea, nil outside of one. There a
// line of output can be a command, and a change brings names and texts of strangers.
// So commands are switched off with a random word, until everything of
// the change is printed.
type actionsLog struct {
	w       io.Writer
	command string // of remit
	resume  string
}

// inActions does the work of a command with the log of a job around it, where there is
// one.
func (a *app) inActions(cmd *cobra.Command, work func() (*harness.Outcome, error)) error {
	w := cmd.OutOrStdout()
	if a.json {
		w = os.Stderr
	}
	log, err := beginActions(w, cmd.Name())
	if err != nil {
		return err
	}
	out, err := work()
	return errors.Join(err, log.end(out)) // the exit code is that of the first
}

// inJob reports whether a CI job of GitHub or Gitea reads what is printed.
func inJob() bool { return os.Getenv("GITHUB_ACTIONS") == "true" }

// beginActions switches commands off.
func beginActions(w io.Writer, command string) (*actionsLog, error) {
	if !inJob() {
		return nil, nil
	}
	var word [16]byte
	if _, err := rand.Read(word[:]); err != nil {
		return nil, fmt.Errorf("making a word for the log: %w", err)
	}
	l := &actionsLog{w: w, command: command, resume: hex.EncodeToString(word[:])}
	_, err := fmt.Fprintf(w, "::stop-commands::%s\n", l.resume)
	return l, err
}

// maxAnnotations is how many of each kind GitHub shows of one step.
const maxAnnotations = 10

// end switches commands on again and prints what is to stand beside the change; the
// summary of the job gets that of the session.
func (l *actionsLog) end(out *harness.Outcome) error {
	if l == nil {
		return nil
	}
	fmt.Fprintf(l.w, "::%s::\n", l.resume)
	if out == nil {
		return nil
	}
	shown := map[string]int{}
	annotate := func(kind, file, lines, title, text string) {
		if shown[kind]++; shown[kind] > maxAnnotations {
			return
		}
		properties := "title=" + actionProperty(title)
		if file != "" {
			properties += ",file=" + actionProperty(file) + lines
		}
		fmt.Fprintf(l.w, "::%s %s::%s\n", kind, properties, actionText(text))
	}
	rep := out.Report
	for _, b := range rep.Blockers {
		kind := "error"
		if b.Code == reason.ReviewRequired {
			kind = "warning"
		}
		text := b.Message
		if hint := hintOf(rep, b); hint != "" {
			text += " (" + hint + ")"
		}
		annotate(kind, fileOf(b, rep.ChangedFiles), "", "remit: "+string(b.Code), text)
	}
	if o := rep.Observation; o != nil {
		for _, h := range o.Unobserved {
			lines := ""
			if !h.Removed && h.First > 0 {
				lines = fmt.Sprintf(",line=%d,endLine=%d", h.First, h.Last)
			}
			annotate("notice", h.Path, lines, "remit: no test notices", "no test fails when this part of the change is taken back")
		}
	}
	return errors.Join(summarize(l.command, out), outputs(out))
}

// outputs gives later steps and jobs what they may know: words of fixed forms, none of
// which the change can choose but its own id.
func outputs(out *harness.Outcome) error {
	rep, code, head := out.Report, "", ""
	if len(rep.Blockers) > 0 {
		code = string(rep.Blockers[0].Code)
	}
	if rep.Checked != nil {
		head = rep.Checked.HeadCommit
	}
	return appendTo("GITHUB_OUTPUT", fmt.Sprintf("status=%s\ncode=%s\nhead=%s\nsession=%s\n", rep.Status, code, head, rep.SessionID))
}

// fileOf is the changed file that a blocker begins with, "" for none.
func fileOf(b evidence.Blocker, changed []string) string {
	i := slices.IndexFunc(changed, func(path string) bool { return strings.HasPrefix(b.Message, path+": ") })
	if i < 0 {
		return ""
	}
	return changed[i]
}

// actionText writes a text as the data of a command: it stays on its line.
func actionText(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(plain(s))
}

// actionProperty writes a text as a property of a command.
func actionProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(actionText(s))
}

// summarize adds the summary of the session to that of the job.
func summarize(command string, out *harness.Outcome) error {
	summary, err := out.Session.Read(evidence.SummaryFile)
	if err != nil {
		return fmt.Errorf("reading the summary: %w", err)
	}
	return appendTo("GITHUB_STEP_SUMMARY", fmt.Sprintf("## remit %s: %s\n\n%s\n", command, out.Report.Status, summary))
}

// appendTo adds to a file that the runner names in a variable, if it does.
func appendTo(variable, text string) error {
	name := os.Getenv(variable)
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // G304: the runner names it
	if err != nil {
		return fmt.Errorf("writing %s: %w", variable, err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", variable, err)
	}
	return nil
}
