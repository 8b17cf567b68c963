package verdictcache

import (
	"bytes"
	"encoding/json"
	"fmt"

	"remit/proof/reason"
	"remit/work/verify"
)

// Base returns the base phase under a key and where it is from, nil if there is none.
func (c *Cache) Base(key []byte, commands []string) (*verify.PhaseResult, *Entry) {
	e := c.get(key)
	if e == nil {
		return nil, nil
	}
	p, err := verify.ReadRecord(e.Payload, commands)
	if err != nil {
		c.Drop(key)
		return nil, nil
	}
	return p, e
}

// KeepBase keeps a base phase that was run just now, if it may be reused.
func (c *Cache) KeepBase(key []byte, p *verify.PhaseResult, log []byte) error {
	record, err := p.Record()
	if err != nil {
		return nil //nolint:nilerr // it may not be kept, which is no failure
	}
	commands := make([]string, len(p.Commands))
	for i, ran := range p.Commands {
		commands[i] = ran.Command
	}
	return c.put(key, record, log, func(earlier []byte) bool {
		before, err := verify.ReadRecord(earlier, commands)
		return err == nil && p.Same(before)
	})
}

// Verdict returns the verdict under a key and where it is from, nil if there is none.
func (c *Cache) Verdict(key []byte) (*verify.Verdict, *Entry) {
	e := c.get(key)
	if e == nil {
		return nil, nil
	}
	verdict, err := readVerdict(e.Payload)
	if err != nil {
		c.Drop(key)
		return nil, nil
	}
	return verdict, e
}

// KeepVerdict keeps a verdict that was made just now, if both of its phases would
// come out the same again. One that may not be kept leaves no earlier one either.
func (c *Cache) KeepVerdict(key []byte, before, after *verify.PhaseResult, verdict *verify.Verdict, log *Recorder) error {
	if log.full || !reusable(before) || !reusable(after) || !settled(verdict) {
		c.Drop(key)
		return nil
	}
	text, err := json.Marshal(verdict)
	if err != nil {
		return fmt.Errorf("encoding the verdict: %w", err)
	}
	return c.put(key, text, log.text.Bytes(), func(earlier []byte) bool { return bytes.Equal(earlier, text) })
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

// readVerdict decodes a kept verdict and refuses what KeepVerdict would not keep.
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

// Recorder keeps what is written to it, nothing where that is too long to keep.
type Recorder struct {
	text bytes.Buffer
	full bool
}

func (b *Recorder) Write(p []byte) (int, error) {
	if b.full = b.full || b.text.Len()+len(p) > MaxLog; b.full {
		b.text = bytes.Buffer{}
	} else {
		b.text.Write(p)
	}
	return len(p), nil
}
