package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/verify"
)

// verdictStore is the cache as one verification of a finished session uses it.
// A nil store keeps and finds nothing.
type verdictStore struct {
	cache *verdictCache
	key   []byte
	log   bounded
	host  func(context.Context) (string, error) // what the commands see of the host now
	saw   string                                // and saw when the key was made
}

// verdicts opens the cache for a verification, nil where it is not to be used.
// It is a convenience, so what keeps it from working is only told.
func (rec *sealed) verdicts(ctx context.Context, req Reproduction, baseline, lower string) (*verdictStore, error) {
	if !req.Verdicts || req.Sandbox.Describe().Driver == sandbox.DriverNone {
		return nil, nil
	}
	if req.Clock == nil {
		req.Clock = time.Now
	}
	var (
		key []byte
		saw string
	)
	cache, err := openVerdicts(req.Home, req.Clock)
	if err == nil {
		var k verdictKey
		if k, err = newVerdictKey(ctx, req.Sandbox, lower, baseline, rec.contract, req.Repeat); err == nil {
			k.Kind, k.PatchSHA256, k.HeadTree = verdictResult, *rec.receipt.PatchSHA256, *rec.receipt.HeadTree
			saw = k.Host
			key, err = keyOf(k)
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err != nil {
		if req.Progress != nil {
			req.Progress.Output("the verdict cache is not used: " + err.Error())
		}
		return nil, nil
	}
	return &verdictStore{cache: cache, key: key, log: bounded{limit: maxVerdictLog}, saw: saw,
		host: func(ctx context.Context) (string, error) { return hostView(ctx, req.Sandbox, lower) }}, nil
}

// find returns the kept verdict and where it is from. Its log is written to
// the log of the request, behind a line that says what it is.
func (v *verdictStore) find(req Reproduction) (*verify.Verdict, *origin, error) {
	if v == nil || req.Fresh {
		return nil, nil, nil
	}
	e := v.cache.get(v.key)
	if e == nil {
		return nil, nil, nil
	}
	verdict, err := readVerdict(e.payload)
	if err != nil {
		v.cache.drop(v.key)
		return nil, nil, nil //nolint:nilerr // it is made anew
	}
	if req.Log != nil {
		if _, err := fmt.Fprintf(req.Log, "=== cached verdict key=%s made_at=%s\n\n%s", e.key, e.madeAt, e.log); err != nil {
			return nil, nil, writeFailure(evidence.TestLogFile, err)
		}
	}
	return verdict, &e.origin, nil
}

// recording copies what goes into a log.
func (v *verdictStore) recording(log io.Writer) io.Writer {
	switch {
	case v == nil:
		return log
	case log == nil:
		return &v.log
	}
	return io.MultiWriter(log, &v.log)
}

// keep keeps a verdict that was made just now, if both of its phases would come
// out the same again on a host that has not changed meanwhile. One that may not
// be kept leaves no earlier one either.
func (v *verdictStore) keep(ctx context.Context, before, after *verify.PhaseResult, verdict *verify.Verdict) error {
	if v == nil {
		return nil
	}
	now, err := v.host(ctx)
	if err != nil || now != v.saw || v.log.full || !reusable(before) || !reusable(after) || !settled(verdict) {
		v.cache.drop(v.key)
		return nil
	}
	text, err := json.Marshal(verdict)
	if err != nil {
		return fmt.Errorf("encoding the verdict: %w", err)
	}
	return v.cache.put(v.key, text, v.log.text.Bytes(), func(earlier []byte) bool { return bytes.Equal(earlier, text) })
}

func reusable(p *verify.PhaseResult) bool { return p.Reusable() == nil }

// settled says whether a verdict is about the patch: a pass, or a failure that
// is none of the machine's and of no flake.
func settled(v *verify.Verdict) bool {
	switch v.Status {
	case verify.StatusPass:
		sure := v.Confidence == 100 || v.Confidence == verify.Uncontrolled && v.Control != nil && !v.Control.Made
		return sure && len(v.Findings) == 0
	case verify.StatusFail:
		for _, f := range v.Findings {
			if f.Code != reason.VerificationFailed && f.Code != reason.VerifierTampering {
				return false
			}
		}
		return len(v.Findings) > 0
	}
	return false
}

// readVerdict decodes a kept verdict and refuses what keep would not keep.
func readVerdict(text []byte) (*verify.Verdict, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	v := new(verify.Verdict)
	if err := dec.Decode(v); err != nil {
		return nil, fmt.Errorf("reading a kept verdict: %w", err)
	}
	if !settled(v) {
		return nil, reason.Errorf(reason.SchemaInvalid, "a kept verdict of status %q", v.Status)
	}
	return v, nil
}

// bounded keeps what is written to it up to a limit.
type bounded struct {
	text  bytes.Buffer
	limit int
	full  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.full = b.full || b.text.Len()+len(p) > b.limit; b.full {
		b.text = bytes.Buffer{}
	} else {
		b.text.Write(p)
	}
	return len(p), nil
}
