package matrix

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"remit/law/ladder"
	"remit/proof/atomicfile"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/reason"
)

// recordsDir is where records of the ladder are kept, relative to REMIT_HOME:
// ladder/<engine>/matrix.json and ladder/<engine>/stage<N>-<what>-proof.json.
const recordsDir = "ladder"

const matrixFile = "matrix.json"

// maxRecord bounds a record that is read.
const maxRecord = 16 << 20

var proofFile = form.Lazy(`^stage([1-6])-[a-z0-9][a-z0-9-]*-proof\.json$`)

// Save keeps the report of a complete matrix as the engine's latest. A report
// of some rows is not kept: it would look like more than it is.
func (rep *Report) Save(home string) error {
	if !rep.Complete {
		return fmt.Errorf("keeping the failure matrix: it has %d of %d rows", rep.Total, len(ladder.Rows()))
	}
	b, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return fmt.Errorf("keeping the failure matrix: %w", err)
	}
	dir := filepath.Join(home, recordsDir, rep.Engine.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keeping the failure matrix: %w", err)
	}
	if err := atomicfile.Replace(filepath.Join(dir, matrixFile), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("keeping the failure matrix: %w", err)
	}
	return nil
}

// ReadRecords reads what is kept of an engine, as the given build of Remit sees
// it. Nothing kept is no error; a record that cannot be read is.
func ReadRecords(home, engine string, build evidence.Build) (ladder.Records, error) {
	out := ladder.Records{Engine: engine, Proofs: map[int][]ladder.Record{}}
	dir := filepath.Join(home, recordsDir, engine)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("reading the records of engine %q: %w", engine, err)
	}
	for _, e := range entries {
		stage := proofFile().FindStringSubmatch(e.Name())
		if e.Name() != matrixFile && stage == nil {
			continue
		}
		b, err := readRecord(filepath.Join(dir, e.Name()))
		if err != nil {
			return out, fmt.Errorf("reading the records of engine %q: %w", engine, err)
		}
		rec := ladder.Record{Path: path.Join(recordsDir, engine, e.Name()), SHA256: canon.Digest(b)}
		if stage != nil {
			n, err := strconv.Atoi(stage[1])
			if err != nil {
				return out, err
			}
			out.Proofs[n] = append(out.Proofs[n], rec)
			continue
		}
		rep := Read(b)
		if rep == nil || rep.Engine.Name != engine {
			return out, reason.Errorf(reason.SchemaInvalid, "%s is no %s of engine %q", rec.Path, Schema, engine).
				WithHint("move it away; `remit ladder matrix --engine %s` makes it anew", engine)
		}
		out.Matrix = &ladder.MatrixRecord{Record: rec, Status: rep.Status, Held: rep.Held, Total: rep.Total, FinishedAt: rep.FinishedAt,
			Current: rep.Remit == build, Cases: rep.cases()}
	}
	return out, nil
}

// cases are all cases of the report, as the control summary tells them.
func (rep *Report) cases() []ladder.MatrixCase {
	out := []ladder.MatrixCase{}
	for _, row := range rep.Rows {
		for _, c := range row.Cases {
			one := ladder.MatrixCase{Row: row.Name, Case: c.Name, ExpectedStatus: c.Expected.Status, ExpectedCode: c.Expected.Code, Verdict: c.Verdict}
			if c.Got != nil {
				one.GotStatus, one.GotCode = c.Got.Status, c.Got.Code
			}
			out = append(out, one)
		}
	}
	return out
}

// Read reads a report that was kept, nil for what is none.
func Read(text []byte) *Report {
	rep := new(Report)
	if json.Unmarshal(text, rep) != nil || rep.Schema != Schema {
		return nil
	}
	return rep
}

func readRecord(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err == nil && len(b) > maxRecord {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxRecord)
	}
	return b, err
}
