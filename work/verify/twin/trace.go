package twin

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

const (
	maxTrace     = 16 << 20 // bytes of a trace that are read
	maxTraceLine = 512      // bytes of a line without its end
	maxTraceSite = 1 << 20  // sites are numbered below this
	maxBegun     = 16       // evaluations without an end that count as failed
)

// Trace is what edited files recorded while they ran.
type Trace struct {
	Files map[string]*FileTrace // by Orders.Key
	// Truncated says that there was more than 16 MiB, of which the rest was not
	// read.
	Truncated bool
}

// FileTrace is what one file recorded.
type FileTrace struct {
	Sites map[int]*SiteTrace  // the sites that were reached
	Tests map[string]Outcomes // by the name in the trace: TestX, or TestX/row
}

// SiteTrace says how one site was reached.
type SiteTrace struct {
	// Evaluations is the highest number of an evaluation that was recorded: the
	// first one, or a failing one. It is 0 for a site that is only reached.
	Evaluations int
	// Failed are the numbers of the evaluations that failed, ascending, without
	// repetitions, and those that have begun and have no end, as the process ended. Each
	// process records at most 16.
	Failed []int
	begun  []int // those that have begun and have no end
}

// Outcomes counts how often a test ended in each way: more than once in all
// where a test runs repeatedly or in several processes.
type Outcomes struct{ Pass, Fail, Skip int }

// ReadTrace reads at most 16 MiB of trace lines. Lines over 512 bytes and those
// that are not of the form that the package documents are passed over. The
// error is that of the reader.
func ReadTrace(r io.Reader) (*Trace, error) {
	t := &Trace{Files: map[string]*FileTrace{}}
	limited := &io.LimitedReader{R: r, N: maxTrace + 1}
	in := bufio.NewReaderSize(limited, maxTraceLine+1)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if err := skipLine(in); err != nil {
				return t.end(limited, err)
			}
			continue
		case err != nil:
			return t.end(limited, err) // a last line without an end was cut off
		}
		t.line(strings.TrimSuffix(string(line), "\n"))
	}
}

// skipLine reads to the end of a line that is too long to be one.
func skipLine(in *bufio.Reader) error {
	for {
		if _, err := in.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// end finishes the trace after the reader reported err.
func (t *Trace) end(limited *io.LimitedReader, err error) (*Trace, error) {
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	t.Truncated = limited.N <= 0
	for _, f := range t.Files {
		for _, s := range f.Sites {
			s.Failed = append(s.Failed, s.begun[:min(len(s.begun), maxBegun)]...)
			slices.Sort(s.Failed)
			s.Failed = slices.Compact(s.Failed)
		}
	}
	return t, nil
}

// line adds one line, if it is one.
func (t *Trace) line(line string) {
	w := strings.Split(line, " ")
	if len(w) < 3 || !traceKey(w[0]) {
		return
	}
	switch {
	case w[1] == "E" && len(w) == 5:
		site, n := traceNumber(w[2]), traceNumber(w[3])
		if site < 0 || site >= maxTraceSite || n < 1 || (w[4] != "ok" && w[4] != "failed" && w[4] != "began") {
			return
		}
		s := t.file(w[0]).site(site)
		s.Evaluations = max(s.Evaluations, n)
		switch w[4] {
		case "began":
			s.begun = append(s.begun, n)
		case "failed":
			s.Failed = append(s.Failed, n)
			fallthrough
		default:
			if at := slices.Index(s.begun, n); at >= 0 {
				s.begun = slices.Delete(s.begun, at, at+1)
			}
		}
	case w[1] == "R" && len(w) == 3:
		if site := traceNumber(w[2]); site >= 0 && site < maxTraceSite {
			t.file(w[0]).site(site)
		}
	case w[1] == "T" && len(w) == 4 && w[2] != "":
		t.outcome(w[0], w[2], w[3])
	}
}

func (t *Trace) outcome(key, test, how string) {
	var add Outcomes
	switch how {
	case "pass":
		add.Pass = 1
	case "fail":
		add.Fail = 1
	case "skip":
		add.Skip = 1
	default:
		return
	}
	f := t.file(key)
	o := f.Tests[test]
	f.Tests[test] = Outcomes{o.Pass + add.Pass, o.Fail + add.Fail, o.Skip + add.Skip}
}

func (t *Trace) file(key string) *FileTrace {
	f := t.Files[key]
	if f == nil {
		f = &FileTrace{Sites: map[int]*SiteTrace{}, Tests: map[string]Outcomes{}}
		t.Files[key] = f
	}
	return f
}

func (f *FileTrace) site(id int) *SiteTrace {
	s := f.Sites[id]
	if s == nil {
		s = &SiteTrace{}
		f.Sites[id] = s
	}
	return s
}

// traceKey says whether s can be Orders.Key: letters, digits and '-'.
func traceKey(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-':
		default:
			return false
		}
	}
	return s != ""
}

// traceNumber reads a decimal number without a sign, -1 if it is none.
func traceNumber(s string) int {
	n, err := strconv.ParseUint(s, 10, 62)
	if err != nil {
		return -1
	}
	return int(n)
}
