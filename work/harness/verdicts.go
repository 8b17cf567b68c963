package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/work/depend"
	"remit/work/sandbox"
	"remit/work/verdictcache"
	"remit/work/verify"
)

// question is what the verifier is about to find out, and may know already.
type question struct {
	dir      string // of the cache
	clock    func() time.Time
	sandbox  sandbox.Driver
	lower    string // the checkout of the baseline
	baseline string // its tree
	contract *task.Contract
	repeat   int
	prepared *depend.Prepared
	head     *depend.Prepared  // what lies beside the patched tree, nil for the same
	patch    *evidence.Receipt // of the change that is judged; nil asks for the base phase alone
}

// known is the cache as it is asked one question.
type known struct {
	cache *verdictcache.Cache
	key   []byte
	host  string // what the commands saw of the host when the key was made
}

// open opens the cache for the question, nil where it is not to be trusted.
func (q question) open(ctx context.Context) (*known, error) {
	if q.sandbox == nil || q.sandbox.Describe().Driver == sandbox.DriverNone {
		return nil, nil
	}
	cache, err := verdictcache.Open(q.dir, q.clock)
	if err != nil {
		return nil, err
	}
	host, err := verdictcache.HostView(ctx, q.sandbox, q.lower)
	if err != nil {
		return nil, err
	}
	c := q.contract
	k := verdictcache.Key{Format: 2, Kind: verdictcache.KindBase, BaselineTree: q.baseline, Commands: c.VerificationCommands,
		Groups: c.VerificationGroups, Shared: c.SharedView(), Verify: c.Verify, TestsRule: string(c.Tests), HeldOut: []verdictcache.HeldOut{},
		Repeat: max(1, q.repeat), Limits: limitsOf(c), Verifier: verifierIdentity(), Sandbox: q.sandbox.Describe(), Host: host}
	for _, h := range c.HeldOutTests {
		k.HeldOut = append(k.HeldOut, verdictcache.HeldOut{Path: h.Path, SHA256: h.SHA256})
	}
	k.Environment = q.prepared.Digests()
	if q.head != nil {
		k.Environment = append(append(k.Environment, "head"), q.head.Digests()...)
	}
	if q.patch != nil {
		k.Kind, k.PatchSHA256, k.HeadTree = verdictcache.KindVerdict, *q.patch.PatchSHA256, *q.patch.HeadTree
	}
	key, err := k.Encode()
	return &known{cache, key, host}, err
}

// baseCache opens the cache for the base phase, nil where it is not to be used.
// Without it the phase is run, so what goes wrong here is only reported.
func (r *run) baseCache(ctx context.Context) *known {
	if !r.VerdictCache {
		return nil
	}
	done := r.times.Begin("environment")
	defer done()
	q := question{dir: r.Home.VerdictDir(), clock: r.clock, sandbox: r.Sandbox, lower: r.checkout.Dir, baseline: r.base.Tree,
		contract: r.Contract, repeat: r.Repeat, prepared: r.prepared}
	k, err := q.open(ctx)
	if err != nil {
		if ctx.Err() == nil {
			r.tell("verdict.cache", "skipped", r.scrub(err.Error()))
		}
		return nil
	}
	return k
}

// replay is a base phase that was not run: its log, and its result.
func replay(p *verify.PhaseResult, e *verdictcache.Entry) phaseFunc {
	return func(_ context.Context, _ verify.Sandbox, plan verify.Plan) (*verify.PhaseResult, error) {
		mark := fmt.Sprintf("=== cached base key=%s made_at=%s\n\n", e.Key, e.MadeAt)
		_, err := io.Copy(plan.Log, io.MultiReader(strings.NewReader(mark), bytes.NewReader(e.Log)))
		return p, err
	}
}

// verdictStore is the cache as one verification of a finished session uses it.
// A nil store keeps and finds nothing.
type verdictStore struct {
	*known
	log  verdictcache.Recorder
	look func(context.Context) (string, error) // what the commands see of the host now
}

// verdicts opens the cache for a verification, nil where it is not to be used.
// It is a convenience, so what keeps it from working is only reported.
func (rec *sealed) verdicts(ctx context.Context, req Reproduction, baseline, lower string,
	prepared, head *depend.Prepared) (*verdictStore, error) {
	if !req.Verdicts {
		return nil, nil
	}
	if req.Clock == nil {
		req.Clock = time.Now
	}
	q := question{dir: req.Home.VerdictDir(), clock: req.Clock, sandbox: req.Sandbox, lower: lower, baseline: baseline,
		contract: rec.contract, repeat: req.Repeat, prepared: prepared, head: head, patch: &rec.receipt}
	k, err := q.open(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err != nil && req.Progress != nil {
		req.Progress.Output("the verdict cache is not used: " + err.Error())
	}
	if err != nil || k == nil {
		return nil, nil //nolint:nilerr // it was reported, and the verdict is made without it
	}
	return &verdictStore{known: k, look: func(ctx context.Context) (string, error) { return verdictcache.HostView(ctx, req.Sandbox, lower) }}, nil
}

// find returns the kept verdict and where it is from. Its log is written to
// the log of the request, behind a line that says what it is.
func (v *verdictStore) find(req Reproduction) (*verify.Verdict, *verdictcache.Origin, error) {
	if v == nil || req.Fresh {
		return nil, nil, nil
	}
	verdict, e := v.cache.Verdict(v.key)
	if verdict == nil {
		return nil, nil, nil
	}
	if req.Log != nil {
		if _, err := fmt.Fprintf(req.Log, "=== cached verdict key=%s made_at=%s\n\n%s", e.Key, e.MadeAt, e.Log); err != nil {
			return nil, nil, writeFailure(evidence.TestLogFile, err)
		}
	}
	return verdict, &e.Origin, nil
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

// keep keeps a verdict that was made just now, if the host has not changed
// meanwhile.
func (v *verdictStore) keep(ctx context.Context, before, after *verify.PhaseResult, verdict *verify.Verdict) error {
	if v == nil {
		return nil
	}
	if now, err := v.look(ctx); err != nil || now != v.host {
		v.cache.Drop(v.key)
		return nil //nolint:nilerr // it may not be kept, which is no failure
	}
	return v.cache.KeepVerdict(v.key, before, after, verdict, &v.log)
}
