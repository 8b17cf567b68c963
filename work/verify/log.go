package verify

import (
	"fmt"
	"io"
	"strings"

	"remit/proof/reason"
)

// test.log is for people and for anyone who wants to compute the digests
// again. Each command has a header, then its two streams verbatim. The header
// says how many bytes of each follow, so that output which imitates a header
// can be distinguished from one by counting:
//
//	=== head tree=unedited repetition=1 command=1/2
//	command: go test ./...
//	ran: go test -json -count=1 ./...
//	exit: 0
//	duration_ms: 812
//	tests: 12 passed, 0 failed, 1 skipped
//	stdout: 5120 bytes sha256:…
//	stderr: 0 bytes sha256:…
//	--- stdout 5120
//	…
//	--- stderr 0
//	=== end

// missingCommands is the line that stands for commands that were not given.
const missingCommands = "BLOCKED missing_test_command: the contract names no verification command\n"

// writeRun writes the commands of one run.
func writeRun(w io.Writer, phase string, r *RunResult, spools []*stream) error {
	for i := range r.Commands {
		c := &r.Commands[i]
		if c.Skipped {
			continue
		}
		stdout, stderr := spools[2*i], spools[2*i+1]
		head := header(phase, r, i) + fmt.Sprintf("--- stdout %d\n", kept(stdout))
		if err := writeLog(w, head); err != nil {
			return err
		}
		if err := copyLog(w, stdout); err != nil {
			return err
		}
		if err := writeLog(w, fmt.Sprintf("\n--- stderr %d\n", kept(stderr))); err != nil {
			return err
		}
		if err := copyLog(w, stderr); err != nil {
			return err
		}
		if err := writeLog(w, "\n=== end "+phase+" "+c.verdictWord()+"\n\n"); err != nil {
			return err
		}
	}
	if r.Fault != nil {
		return writeLog(w, fmt.Sprintf("%s %s tree=%s: %s\n\n", strings.ToUpper(string(reason.StatusOf(r.Fault.Code))), r.Fault.Code, r.Tree, oneLine(r.Fault.Detail)))
	}
	return nil
}

func header(phase string, r *RunResult, i int) string {
	c := &r.Commands[i]
	var b strings.Builder
	fmt.Fprintf(&b, "=== %s tree=%s repetition=%d command=%d/%d\n", phase, r.Tree, r.Repetition, i+1, len(r.Commands))
	fmt.Fprintf(&b, "command: %s\nran: %s\n", oneLine(c.Command), oneLine(c.Ran))
	switch {
	case !c.Started:
		b.WriteString("exit: none, not started\n")
	case c.Signal != "":
		fmt.Fprintf(&b, "exit: %d (%s)\n", c.ExitCode, c.Signal)
	default:
		fmt.Fprintf(&b, "exit: %d\n", c.ExitCode)
	}
	fmt.Fprintf(&b, "duration_ms: %d\n", c.DurationMS)
	if c.TimedOut {
		b.WriteString("stopped: time limit\n")
	}
	if c.OutputExceeded {
		b.WriteString("stopped: output limit\n")
	}
	if c.Tests != nil {
		fmt.Fprintf(&b, "tests: %d passed, %d failed, %d skipped (%s)\n", c.Tests.Passed, c.Tests.Failed, c.Tests.Skipped, c.Runner)
	}
	for _, p := range c.Problems {
		fmt.Fprintf(&b, "problem: %s\n", oneLine(p))
	}
	fmt.Fprintf(&b, "stdout: %d bytes %s\nstderr: %d bytes %s\n", c.StdoutBytes, c.StdoutSHA256, c.StderrBytes, c.StderrSHA256)
	return b.String()
}

// verdictWord is the command's own result, before phases are compared.
func (c *CommandResult) verdictWord() string {
	if c.Passed {
		return "pass"
	}
	return "fail"
}

// oneLine keeps a command or message from looking like more lines of the log.
func oneLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(s)
}

// kept is how many bytes of a stream the log holds.
func kept(s *stream) int64 { return min(s.size, s.limit) }

func writeLog(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return logError(err)
	}
	return nil
}

func copyLog(w io.Writer, s *stream) error {
	in, err := s.open()
	if err != nil {
		return logError(err)
	}
	defer in.Close()
	if _, err := io.Copy(w, in); err != nil {
		return logError(err)
	}
	return nil
}

func logError(err error) error {
	return reason.Errorf(reason.ArtifactWriteFailure, "writing the test log: %w", err)
}
