package results

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Runners such as mocha name their tests only in a file that they are asked to
// write. The sandbox gives nothing back but output, so a shell ([Collecting]) around
// the command prints the files when it has ended, behind everything else:
//
//	MARK begin /workspace
//	MARK file mocha-17.json 512
//	…512 bytes, and an end of line
//	MARK end
//
// That is simpler than a second way out of the sandbox, is bounded like all output,
// and stands in test.log as evidence. The mark is new in each run, so that nothing
// is read that a test prints by chance. It is no secret: code under test that looks
// for it finds it, as it finds the files. So a file counts only as far as it agrees
// with itself, with what the runner printed and with the exit status, and tests of
// the base that are not in it are missing.

// Mark makes the first word of the lines between which result files stand.
func Mark() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // it does not fail
	return "remit-results-" + hex.EncodeToString(b[:])
}

// The bounds of result files: each, and how many.
const (
	maxResult  = 16 << 20
	maxResults = 500
)

// collected is what stands behind the mark.
type collected struct {
	root     string
	at       int64 // where the mark begins, -1 where there is none
	files    []resultFile
	problems []string
}

type resultFile struct {
	name string
	text []byte
}

func (f *collected) empty() bool { return f == nil || len(f.files) == 0 }

// text is the output in front of the mark.
func (f *collected) text(open Open) Open {
	if f.at < 0 {
		return open
	}
	return func() (io.ReadCloser, error) {
		in, err := open()
		if err != nil {
			return nil, err
		}
		return struct {
			io.Reader
			io.Closer
		}{io.LimitReader(in, f.at), in}, nil
	}
}

// collect finds the result files at the end of a stream.
func collect(open Open, mark string) (*collected, error) {
	stream, err := open()
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	f := &collected{at: -1}
	in := bufio.NewReaderSize(io.LimitReader(stream, 2*MaxInput), 64<<10)
	begin, fresh := []byte(mark+" begin "), true
	for at := int64(0); ; {
		part, err := in.ReadSlice('\n')
		if fresh && bytes.HasPrefix(part, begin) {
			f.at, f.root = at, strings.TrimSpace(string(part[len(begin):]))
			f.read(in, mark)
			return f, nil
		}
		at += int64(len(part))
		fresh = err == nil
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

// read takes the files up to the last line. What is not as the shell prints it was
// written by another process, and makes the report incomplete.
func (f *collected) read(in *bufio.Reader, mark string) {
	for {
		line, err := in.ReadString('\n')
		words := strings.Fields(line)
		switch {
		case err != nil || len(words) < 2 || words[0] != mark:
			f.problems = append(f.problems, "the result files of the runner break off")
			return
		case words[1] == "end":
			if _, err := in.Peek(1); !errors.Is(err, io.EOF) {
				f.problems = append(f.problems, "something was written behind the result files of the runner")
			}
			return
		case words[1] != "file" || len(words) != 4 || len(f.files) >= maxResults:
			f.problems = append(f.problems, "the result files of the runner break off")
			return
		}
		size, err := strconv.ParseInt(words[3], 10, 64)
		if err != nil || size < 0 || size > maxResult {
			f.problems = append(f.problems, fmt.Sprintf("the result file %s has more than %d bytes", cleanID(words[2]), maxResult))
			return
		}
		text := make([]byte, size+1)
		if _, err := io.ReadFull(in, text); err != nil || text[size] != '\n' {
			f.problems = append(f.problems, "the result files of the runner break off")
			return
		}
		f.files = append(f.files, resultFile{words[2], text[:size]})
	}
}

// report joins what the files say.
func (f *collected) report() (*Report, error) {
	merged := &Report{Listed: true, Complete: true, sums: make(map[string]tally)}
	for _, file := range f.files {
		name, _, _ := strings.Cut(file.name, "-")
		a := adapterOf(name)
		if a == nil || a.file == nil {
			f.problems = append(f.problems, "a result file that no runner was asked for: "+cleanID(file.name))
			continue
		}
		rep, err := a.file(bytes.NewReader(file.text), f.root)
		if err != nil {
			return nil, err
		}
		t := merged.sums[a.Name]
		t.add(rep.raw.passed, rep.raw.failed, rep.raw.skipped)
		merged.sums[a.Name] = t
		sums := merged.sums
		if merged.Runner == "" {
			merged = rep
		} else {
			merged = merge(merged, rep)
		}
		merged.sums = sums
	}
	merged.Filed = true
	for _, p := range f.problems {
		merged.lose(p)
	}
	return merged, nil
}

// lose notes what keeps the report from being complete.
func (r *Report) lose(problem string) {
	r.Complete = false
	if len(r.Problems) < MaxProblems && !slices.Contains(r.Problems, problem) {
		r.Problems = append(r.Problems, problem)
	}
}

// agree holds result files against what their runners printed.
func (r *Report) agree(in Input) error {
	printed := make(map[string]*tally)
	for _, open := range []Open{in.Stdout, in.Stderr} {
		stream, err := open()
		if err != nil {
			return fmt.Errorf("opening captured output: %w", err)
		}
		var c collector
		lines := newLines(stream, &c)
		for line, ok := lines.text(); ok; line, ok = lines.text() {
			for name := range r.sums {
				if a := adapterOf(name); a.sums(line) {
					if printed[name] == nil {
						printed[name] = &tally{}
					}
					a.sum(line, printed[name])
				}
			}
		}
		_ = stream.Close() // it was only read
		if lines.err != nil {
			return fmt.Errorf("reading captured output: %w", lines.err)
		}
	}
	for name, f := range r.sums {
		if printed[name] == nil && adapterOf(name).closes {
			r.lose(fmt.Sprintf("%s prints no counts, and its result file has %d passed and %d failed tests", name, f.passed, f.failed))
		}
	}
	for name, t := range printed {
		if f := r.sums[name]; f.passed != t.passed || f.failed != t.failed {
			r.lose(fmt.Sprintf("%s prints %d passed and %d failed tests, and its result file has %d and %d", name, t.passed, t.failed, f.passed, f.failed))
		}
	}
	return nil
}

// relative is a path below root without it; of any other absolute path only the
// name is kept, so that an identity is the same on every machine.
func relative(name, root string) string {
	name = strings.TrimPrefix(name, "file://")
	if rest, below := strings.CutPrefix(name, strings.TrimSuffix(root, "/")+"/"); below && root != "" {
		return path.Clean(rest)
	}
	if path.IsAbs(name) {
		return path.Base(name)
	}
	return strings.TrimPrefix(path.Clean(name), "./")
}

// identity joins the parts of a name that are there.
func identity(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " > ")
}
