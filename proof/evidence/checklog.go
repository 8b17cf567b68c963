package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"remit/proof/canon"
	"remit/proof/form"
	"remit/proof/reason"
)

// test.log is a blob: the journal has its digest, which proves that it was not
// exchanged later and nothing of what it says. So it is read, and each command
// that the journal records must stand in it with the same result, over output
// that has the digest which the journal has. A number that was made up then
// needs a log that was made up as well, and a person who reads it.
//
// A section is one command:
//
//	=== head tree=head repetition=1 command=1/2
//	command: go test ./...
//	ran: go test -json ./...
//	exit: 0
//	duration_ms: 812
//	tests: 12 passed, 0 failed, 1 skipped (gotest)
//	stdout: 5120 bytes sha256:…
//	stderr: 0 bytes sha256:…
//	--- stdout 5120
//	…
//	--- stderr 0
//
//	=== end head pass
//
// Runs over the trees twin, new-tests and hunk are numbered by repetition;
// control is the tree of older verifiers.

const (
	maxLogLine     = 1 << 20   // of a header: a command line and some digests
	maxLogSections = 1_000_000 // commands × runs
)

// loggedRun is one section of test.log.
type loggedRun struct {
	phase, tree            string
	repetition, number, of int // number is 1-based
	command                string
	started                bool
	exit                   int
	duration               int64
	tests                  *TestCounts
	stdout, stderr         loggedStream
	passed                 bool
}

type loggedStream struct {
	bytes, kept int64
	sha256      string // as the header says
	digest      string // of what is there
}

var (
	logSection = form.Lazy(`^=== (base|head) tree=(base|head|unedited|control|twin|new-tests|hunk) repetition=([0-9]{1,4}) command=([0-9]{1,6})/([0-9]{1,6})$`)
	logFault   = form.Lazy(`^(?:FAIL|BLOCKED) [a-z0-9_.]+ tree=(base|head|unedited|control|twin|new-tests|hunk): `)
	logExit    = form.Lazy(`^(-?[0-9]{1,10})(?: \(.*\))?$`)
	logTests   = form.Lazy(`^([0-9]{1,9}) passed, ([0-9]{1,9}) failed, ([0-9]{1,9}) skipped(?: \(.*\))?$`)
	logStream  = form.Lazy(`^([0-9]{1,18}) bytes (sha256:[0-9a-f]{64})$`)
	logCached  = form.Lazy(`^=== cached base key=(sha256:[0-9a-f]{64}) made_at=([0-9TZ:.-]{1,30})$`)
)

// checkTestLog holds test.log against the runs of the verifier that led to its
// verdict. A run that never came to one has a log that says so, in words.
func (r *run) checkTestLog(files fs.FS) []reason.Finding {
	base, head := r.phase("base"), r.phase("head")
	if r.verification == nil || base == nil || head == nil || r.redacted() {
		return nil
	}
	finding := func(format string, args ...any) []reason.Finding {
		return []reason.Finding{{Code: reason.TestLogMismatch, Path: TestLogFile, Detail: fmt.Sprintf(format, args...)}}
	}
	f, err := files.Open(TestLogFile)
	if err != nil {
		return nil // missing: another check says so
	}
	defer f.Close()
	c := logCheck{r: r, base: base, head: head, seen: map[loggedPlace]bool{}, shown: map[loggedTree]int{}}
	c.further, c.places = r.furtherRuns()
	log := logReader{in: bufio.NewReaderSize(f, 64<<10)}
	for range maxLogSections {
		l, err := log.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return finding("%v", err)
		}
		if why := c.section(l); why != "" {
			return finding("%s", why)
		}
	}
	if log.fault != "" && r.verification.Status == StatusPass {
		return finding("says that the run of tree %s had a fault, and the verifier passed", log.fault)
	}
	if why := c.missing(&log); why != "" {
		return finding("%s", why)
	}
	return nil
}

// plainTrees are those whose runs say something about the code in any case.
var plainTrees = []string{"base", "head", "unedited"}

// run is the place of all sections of the run that the section is part of.
func (l *loggedRun) run() loggedTree { return loggedTree{l.phase, l.tree, l.repetition} }

// maxRepeats bounds the repetitions that are looked for.
const maxRepeats = 100

type loggedPlace struct {
	loggedTree
	number int
}

// phase returns the last recorded phase of the name: a run that was taken up
// again did it again, and wrote its log anew.
func (r *run) phase(name string) *VerifyPhase {
	for i := len(r.phases) - 1; i >= 0; i-- {
		if p := &r.phases[i]; len(p.Runs) > 0 && p.Runs[0].Phase == name {
			return p
		}
	}
	return nil
}

// redacted reports whether secrets were taken out of the evidence. Such a run
// has failed, and its artifacts are no longer what was digested.
func (r *run) redacted() bool {
	for _, b := range r.blockers {
		if b.Code == reason.SecretLeak {
			return true
		}
	}
	return false
}

// differs says in what a section is not the run that the journal has, "" if it is.
func (l *loggedRun) differs(p *VerifyPhase) string {
	if l.of != len(p.Runs) || l.number > l.of {
		return fmt.Sprintf("is number %d of %d here, the journal has %d", l.number, l.of, len(p.Runs))
	}
	c := &p.Runs[l.number-1]
	switch {
	case l.command != oneLogLine(c.Command):
		return fmt.Sprintf("is %q here, %q in the journal", l.command, c.Command)
	case l.started && l.exit != c.ExitCode:
		return fmt.Sprintf("exits with %d here, %d in the journal", l.exit, c.ExitCode)
	case l.duration != c.DurationMS:
		return fmt.Sprintf("takes %d ms here, %d in the journal", l.duration, c.DurationMS)
	case l.passed != c.Passed:
		return fmt.Sprintf("passes is %t here, %t in the journal", l.passed, c.Passed)
	case (l.tests == nil) != (c.Tests == nil) || c.Tests != nil && *l.tests != *c.Tests:
		return "does not count the tests as the journal does"
	case l.stdout.sha256 != c.StdoutSHA256:
		return "does not have the stdout_sha256 of the journal"
	case l.stderr.sha256 != c.StderrSHA256:
		return "does not have the stderr_sha256 of the journal"
	}
	return l.contradicts()
}

// contradicts says where a section disagrees with itself.
func (l *loggedRun) contradicts() string {
	for name, s := range map[string]loggedStream{"stdout": l.stdout, "stderr": l.stderr} {
		switch {
		case s.kept == s.bytes && s.digest != s.sha256:
			return "its " + name + " does not have the digest that is stated of it"
		case s.kept != s.bytes && (s.kept > s.bytes || l.passed):
			return "its " + name + " does not have the length that is stated of it"
		}
	}
	if l.passed && (!l.started || l.exit != 0) {
		return "passes, and did not exit with 0"
	}
	return ""
}

// oneLogLine is how a command stands in a log.
func oneLogLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(s)
}

// logReader reads test.log section by section; output streams through a hash.
type logReader struct {
	in          *bufio.Reader
	line        int
	key, madeAt string // of the cached base phase, if it says so
	fault       string // the tree whose run said nothing about the code
}

func (l *logReader) text() (string, error) {
	var long []byte
	for {
		part, err := l.in.ReadSlice('\n')
		long = append(long, part...)
		if len(long) > maxLogLine {
			return "", fmt.Errorf("line %d is too long", l.line+1)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) && len(long) > 0 {
			return "", fmt.Errorf("line %d is cut off", l.line+1)
		}
		l.line++
		return string(bytes.TrimSuffix(long, []byte("\n"))), err
	}
}

// next returns the next section, io.EOF behind the last.
func (l *logReader) next() (*loggedRun, error) {
	for {
		line, err := l.text()
		if err != nil {
			return nil, err
		}
		if m := logSection().FindStringSubmatch(line); m != nil {
			run := &loggedRun{phase: m[1], tree: m[2], repetition: atoi(m[3]), number: atoi(m[4]), of: atoi(m[5])}
			return run, l.section(run)
		}
		m, fault := logCached().FindStringSubmatch(line), logFault().FindStringSubmatch(line)
		switch {
		case m != nil && l.key == "":
			l.key, l.madeAt = m[1], m[2]
		case fault != nil && !slices.Contains(plainTrees, fault[1]):
			// What it means is said by the control, or by what was left out.
		case fault != nil:
			l.fault = fault[1]
		case line != "":
			return nil, fmt.Errorf("line %d is no part of a run", l.line)
		}
	}
}

// section reads a section behind its first line.
func (l *logReader) section(run *loggedRun) error {
	stated := map[string]string{}
	for {
		line, err := l.text()
		if err != nil {
			return l.cut(err)
		}
		if kept, ok := strings.CutPrefix(line, "--- stdout "); ok {
			if err := run.fields(stated); err != nil {
				return fmt.Errorf("line %d: %w", l.line, err)
			}
			return l.streams(run, kept)
		}
		key, value, ok := strings.Cut(line, ": ")
		if _, twice := stated[key]; !ok || twice && key != "problem" && key != "stopped" {
			return fmt.Errorf("line %d is no header of a run, or its second", l.line)
		}
		stated[key] = value
	}
}

// fields reads the headers of a section.
func (l *loggedRun) fields(stated map[string]string) error {
	l.command = stated["command"]
	if exit := stated["exit"]; exit != "none, not started" {
		m := logExit().FindStringSubmatch(exit)
		if m == nil {
			return errors.New("no exit code")
		}
		l.started, l.exit = true, atoi(m[1])
	}
	var err error
	if l.duration, err = strconv.ParseInt(stated["duration_ms"], 10, 64); err != nil {
		return errors.New("no duration")
	}
	if text, ok := stated["tests"]; ok {
		m := logTests().FindStringSubmatch(text)
		if m == nil {
			return errors.New("no test counts")
		}
		l.tests = &TestCounts{Passed: atoi(m[1]), Failed: atoi(m[2]), Skipped: atoi(m[3])}
	}
	for name, s := range map[string]*loggedStream{"stdout": &l.stdout, "stderr": &l.stderr} {
		m := logStream().FindStringSubmatch(stated[name])
		if m == nil {
			return fmt.Errorf("no digest of %s", name)
		}
		if s.bytes, err = strconv.ParseInt(m[1], 10, 64); err != nil {
			return fmt.Errorf("no length of %s", name)
		}
		s.sha256 = m[2]
	}
	return nil
}

// streams reads the two outputs and the end of a section.
func (l *logReader) streams(run *loggedRun, kept string) error {
	if err := l.stream(&run.stdout, kept); err != nil {
		return err
	}
	line, err := l.text()
	if err != nil {
		return l.cut(err)
	}
	kept, ok := strings.CutPrefix(line, "--- stderr ")
	if !ok {
		return fmt.Errorf("line %d is not where stderr begins", l.line)
	}
	if err := l.stream(&run.stderr, kept); err != nil {
		return err
	}
	if line, err = l.text(); err != nil {
		return l.cut(err)
	}
	word, ok := strings.CutPrefix(line, "=== end "+run.phase+" ")
	if run.passed = word == "pass"; !ok || !run.passed && word != "fail" {
		return fmt.Errorf("line %d does not end the run", l.line)
	}
	return nil
}

// stream hashes one output, and the LF that is put behind it.
func (l *logReader) stream(s *loggedStream, kept string) error {
	var err error
	if s.kept, err = strconv.ParseInt(kept, 10, 64); err != nil || s.kept < 0 {
		return fmt.Errorf("line %d states no length", l.line)
	}
	digest, n, err := canon.DigestReader(io.LimitReader(l.in, s.kept))
	if err != nil {
		return err
	}
	if s.digest = digest; n != s.kept {
		return l.cut(io.EOF)
	}
	if c, err := l.in.ReadByte(); err != nil || c != '\n' {
		return fmt.Errorf("the output behind line %d is longer than it says", l.line)
	}
	return nil
}

func (l *logReader) cut(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("is cut off behind line %d", l.line)
	}
	return err
}

// atoi reads digits that a pattern has matched and bounded.
func atoi(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
