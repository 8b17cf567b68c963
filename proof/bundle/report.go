package bundle

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"

	"remit/proof/attest"
	"remit/proof/reason"
)

// ReportSchema is the schema of a [Report].
const ReportSchema = "remit.audit.v1"

// Status of an audit or of one of its gates.
type Status string

// What an audit ends with, and what a gate can besides be.
const (
	Pass    Status = "pass"
	Fail    Status = "fail"
	Blocked Status = "blocked" // could not be checked
	Skipped Status = "skipped" // does not apply, or was not asked for; gates only
)

// ExitCode of a process that reports the status: 0 pass, 2 fail, 3 blocked.
func (s Status) ExitCode() int {
	switch s {
	case Pass:
		return 0
	case Fail:
		return 2
	default:
		return 3
	}
}

// Report is the result of an audit.
type Report struct {
	Schema    string       `json:"schema"`
	Path      string       `json:"path"`    // base name of what was audited
	Profile   Profile      `json:"profile"` // "" when nothing could be read
	Status    Status       `json:"status"`
	RunStatus string       `json:"run_status,omitempty"` // of the run that is recorded; only when the audit passes
	ExitCode  int          `json:"exit_code"`
	Gates     []GateResult `json:"gates"`
	Entries   int          `json:"entries"` // files, the manifest included
	Bytes     int64        `json:"bytes"`   // of all files, uncompressed
	ZipSHA256 string       `json:"zip_sha256,omitempty"`
	Extracted bool         `json:"extracted"`          // the deliverable was written
	NotMade   []string     `json:"not_made,omitempty"` // gates that nothing was run for
	// Conclusion is what a reader may take from the report, in a sentence of the caller.
	Conclusion string    `json:"conclusion,omitempty"`
	Commands   []Command `json:"commands"`
}

// GateResult is what one gate found.
type GateResult struct {
	Name     string           `json:"name"`
	Status   Status           `json:"status"`
	Reason   string           `json:"reason,omitempty"` // why skipped or blocked; of some gates, why passed
	Findings []reason.Finding `json:"findings"`
	Signers  []attest.Vouched `json:"signers,omitempty"` // of the gate signatures: whose signatures verify
}

// Command is one command of gates 9 and 10. Stdout and Stderr are verbatim
// unless cut; the digests and byte counts are of the whole output.
type Command struct {
	Gate         string `json:"gate"`
	Command      string `json:"command"`
	NamedBy      string `json:"named_by,omitempty"` // file of the bundle that names the command; "": the caller did
	ExitCode     *int   `json:"exit_code"`          // nil: it did not run to its end
	DurationMS   int64  `json:"duration_ms"`
	Stdout       string `json:"stdout"`
	Stderr       string `json:"stderr"`
	StdoutBytes  int64  `json:"stdout_bytes"`
	StderrBytes  int64  `json:"stderr_bytes"`
	StdoutSHA256 string `json:"stdout_sha256"`
	StderrSHA256 string `json:"stderr_sha256"`
	StdoutCut    bool   `json:"stdout_cut,omitempty"`
	StderrCut    bool   `json:"stderr_cut,omitempty"`
}

// WriteReport writes the report for people: verdict, gates, findings, and the
// output of every command. Output is verbatim, inside a fence longer than any
// in it, so that no command can write a verdict of its own; names and details
// have their control characters escaped.
func (r *Report) WriteReport(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Audit: %s\n\n", inline(r.Verdict()))
	fmt.Fprintf(&b, "- path: `%s`\n", inline(r.Path))
	profile := string(r.Profile)
	if profile == "" {
		profile = "unknown: the content could not be listed"
	}
	fmt.Fprintf(&b, "- profile: %s\n", profile)
	if r.ZipSHA256 != "" {
		fmt.Fprintf(&b, "- zip: %s\n", r.ZipSHA256)
	}
	fmt.Fprintf(&b, "- files: %d, bytes: %d\n", r.Entries, r.Bytes)
	fmt.Fprintf(&b, "- deliverable extracted: %t\n", r.Extracted)
	fmt.Fprintf(&b, "- exit code: %d\n\n## Gates\n\n", r.ExitCode)
	for i, g := range r.Gates {
		r.writeGate(&b, i+1, g)
	}
	if r.Conclusion != "" {
		fmt.Fprintf(&b, "\n%s\n", inline(r.Conclusion))
	}
	if len(r.Commands) > 0 {
		b.WriteString("\n## Commands\n")
	}
	for _, c := range r.Commands {
		writeCommand(&b, c)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Verdict is the result in a few words. That an audit passes says nothing of the
// run: one that failed is named together with what it records.
func (r *Report) Verdict() string {
	if r.Status == Pass && r.RunStatus != "" && r.RunStatus != string(Pass) {
		return "the audit holds: the run it records is " + strings.ToUpper(r.RunStatus)
	}
	return strings.ToUpper(string(r.Status))
}

func (r *Report) writeGate(b *bytes.Buffer, number int, g GateResult) {
	fmt.Fprintf(b, "%d. %s: **%s**", number, g.Name, strings.ToUpper(string(g.Status)))
	if g.Reason != "" {
		fmt.Fprintf(b, " (%s)", inline(g.Reason))
	}
	b.WriteByte('\n')
	for _, f := range g.Findings {
		fmt.Fprintf(b, "   - `%s`", inline(fullCode(f.Code)))
		if f.Path != "" {
			fmt.Fprintf(b, " `%s`", inline(f.Path))
		}
		if f.Line > 0 {
			fmt.Fprintf(b, " line %d", f.Line)
		}
		fmt.Fprintf(b, ": %s\n", inline(f.Detail))
	}
}

func fullCode(code reason.Code) string {
	if info, ok := reason.Lookup(code); ok {
		return info.String()
	}
	return string(code)
}

func writeCommand(b *bytes.Buffer, c Command) {
	fmt.Fprintf(b, "\n### %s: `%s`\n\n", c.Gate, inline(c.Command))
	if c.NamedBy != "" {
		fmt.Fprintf(b, "named by the bundle itself, in `%s`\n\n", inline(c.NamedBy))
	}
	if c.ExitCode != nil {
		fmt.Fprintf(b, "exit code %d after %d ms\n", *c.ExitCode, c.DurationMS)
	} else {
		fmt.Fprintf(b, "it did not run to its end (%d ms)\n", c.DurationMS)
	}
	writeStream(b, "stdout", c.Stdout, c.StdoutBytes, c.StdoutSHA256, c.StdoutCut)
	writeStream(b, "stderr", c.Stderr, c.StderrBytes, c.StderrSHA256, c.StderrCut)
}

func writeStream(b *bytes.Buffer, name, text string, total int64, digest string, cut bool) {
	fmt.Fprintf(b, "\n%s, %d bytes, %s", name, total, digest)
	if cut {
		b.WriteString(", cut")
	}
	if text == "" {
		b.WriteString(", empty\n")
		return
	}
	fence := strings.Repeat("`", max(3, longestFence(text)+1))
	fmt.Fprintf(b, "\n\n%stext\n%s", fence, text)
	if !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	b.WriteString(fence + "\n")
}

// longestFence is the length of the longest run of backticks.
func longestFence(text string) int {
	longest, run := 0, 0
	for i := range len(text) {
		if text[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// inline makes untrusted text fit into a line: no control characters, no
// backticks that would end a code span.
func inline(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case unsafeRune(r) || r == unicode.ReplacementChar:
			fmt.Fprintf(&b, "\\u%04x", r)
		case r == '`':
			b.WriteByte('\'')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
