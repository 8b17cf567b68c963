package forge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"remit/forge/swebench"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// SWEBenchPrediction writes the change of the session in dir as a prediction of
// SWE-bench: one line of JSON.
func SWEBenchPrediction(w io.Writer, dir string) error {
	c, err := open(dir)
	if err != nil {
		return err
	}
	patch, err := os.Open(filepath.Join(dir, evidence.PatchFile))
	if err != nil {
		return fmt.Errorf("reading the patch: %w", err)
	}
	defer patch.Close()
	// A patch may be large: it is read twice and never held. Nothing is written of one
	// that no prediction can hold.
	if err := eachText(patch, func([]byte) error { return nil }); err != nil {
		return err
	}
	if _, err := patch.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the patch: %w", err)
	}
	line, err := json.Marshal(swebench.Prediction{InstanceID: c.report.CaseID, Model: c.maker(), Patch: new("")})
	if err != nil {
		return err
	}
	before, isLast := bytes.CutSuffix(line, []byte(`"}`))
	if !isLast {
		return fmt.Errorf("the patch is not the last field of %s", line)
	}
	if _, err := w.Write(before); err != nil {
		return err
	}
	err = eachText(patch, func(part []byte) error {
		quoted, err := json.Marshal(string(part))
		if err == nil {
			_, err = w.Write(quoted[1 : len(quoted)-1])
		}
		return err
	})
	if err == nil {
		_, err = io.WriteString(w, "\"}\n")
	}
	return err
}

// eachText reads UTF-8 in parts that end between two characters.
func eachText(r io.Reader, take func(part []byte) error) error {
	buf, kept := make([]byte, 64<<10), 0
	for {
		n, err := io.ReadFull(r, buf[kept:])
		n += kept
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return fmt.Errorf("reading the patch: %w", err)
		}
		whole := n
		for back := 1; !ended && back <= utf8.UTFMax && back <= n; back++ {
			if utf8.RuneStart(buf[n-back]) {
				if !utf8.FullRune(buf[n-back : n]) {
					whole = n - back
				}
				break
			}
		}
		if !utf8.Valid(buf[:whole]) {
			return reason.Errorf(reason.PredictionsInvalid, "the patch is not UTF-8, and a prediction is JSON").WithHint("export it as a patch")
		}
		if err := take(buf[:whole]); err != nil || ended {
			return err
		}
		kept = copy(buf, buf[whole:n])
	}
}

// maker is whose the change is: the model, the author of a patch, or the engine.
func (c *change) maker() string {
	switch {
	case c.report.Model != nil:
		return *c.report.Model
	case c.report.Checked != nil && len(c.report.Checked.Authors) > 0:
		return c.report.Checked.Authors[0].Name
	}
	return c.report.Backend
}

// SWEBenchReport writes what the verifier saw of the change as the report of an instance.
func SWEBenchReport(w io.Writer, dir string) error {
	c, err := open(dir)
	if err != nil {
		return err
	}
	results, err := readResults(dir)
	if err != nil {
		return err
	}
	judged := slices.ContainsFunc(c.report.Verification, func(r evidence.CommandRun) bool { return r.Phase == headPhase })
	report := swebench.InstanceReport{PatchExists: len(c.report.ChangedFiles) > 0, Applied: judged,
		Resolved: c.report.Status == evidence.StatusPass}
	if judged {
		report.Tests = c.testsStatus(results)
		// Readers compute from these whether the instance is resolved: tests that the change
		// itself has edited to pass must not say so.
		if t := report.Tests; !report.Resolved && len(t.FailToPass.Failure)+len(t.PassToPass.Failure) == 0 {
			report.Tests = nil
		}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]swebench.InstanceReport{c.report.CaseID: report})
}

// testsStatus sorts the tests by what they did before the change and with it. A test that
// fails in both was to be mended where the verdict is that it was not.
func (c *change) testsStatus(results []evidence.TestResult) *swebench.TestsStatus {
	base, head := outcomes(results, false), outcomes(results, true)
	out := swebench.NewTestsStatus()
	for _, test := range slices.Sorted(maps.Keys(base)) {
		before, after := base[test], head[test]
		switch {
		case before == "fail" && after == "pass":
			out.FailToPass.Success = append(out.FailToPass.Success, test)
		case before == "fail" && c.report.Status == evidence.StatusPass:
			out.FailToFail.Failure = append(out.FailToFail.Failure, test)
		case before == "fail":
			out.FailToPass.Failure = append(out.FailToPass.Failure, test)
		case before == "pass" && (after == "pass" || after == "skip"):
			out.PassToPass.Success = append(out.PassToPass.Success, test)
		case before == "pass":
			out.PassToPass.Failure = append(out.PassToPass.Failure, test)
		}
	}
	if n := c.report.NewTests; n != nil {
		for _, test := range n.FailWithout {
			if _, known := base[test]; !known && head[test] == "pass" {
				out.FailToPass.Success = append(out.FailToPass.Success, test)
			}
		}
	}
	return out
}

// outcomes are those of the tests of a phase: the worst, where a test ran several times.
func outcomes(results []evidence.TestResult, head bool) map[string]string {
	worse := []string{"", "pass", "skip", "fail"}
	out := map[string]string{}
	for _, r := range results {
		if (r.Phase == headPhase) == head && slices.Index(worse, r.Outcome) > slices.Index(worse, out[r.Test]) {
			out[r.Test] = r.Outcome
		}
	}
	return out
}
