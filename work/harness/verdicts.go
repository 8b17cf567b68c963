package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/work/sandbox"
	"remit/work/verdictcache"
	"remit/work/verify"
)

// VerdictDir holds what the verifier found out, by the digest of everything
// that it depends on.
func (h Home) VerdictDir() string { return filepath.Join(h.CacheDir(), "verdicts") }

// testingDir holds Go's package testing, compiled as the control needs it.
func (h Home) testingDir() string { return filepath.Join(h.CacheDir(), "testing") }

// Distrust empties the verdict cache if the driver confines nothing: what runs
// under it is the user and can have written entries. It is called before and
// after such a process; a cache that cannot be emptied is an error.
func (h Home) Distrust(d sandbox.Driver) error {
	if d == nil || d.Describe().Driver != sandbox.DriverNone {
		return nil
	}
	for _, dir := range []string{h.VerdictDir(), h.testingDir()} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("emptying the verdict cache: %w", err)
		}
	}
	return nil
}

// newVerdictKey names what a base phase over the checkout in lower depends on.
func newVerdictKey(ctx context.Context, sb sandbox.Driver, lower, baseline string, c *task.Contract, repeat int) (verdictcache.Key, error) {
	host, err := verdictcache.HostView(ctx, sb, lower)
	if err != nil {
		return verdictcache.Key{}, err
	}
	k := verdictcache.Key{Format: 2, Kind: verdictcache.KindBase, BaselineTree: baseline, Commands: c.VerificationCommands, Groups: c.VerificationGroups, Shared: c.SharedView(), Verify: c.Verify, TestsRule: string(c.Tests), HeldOut: []verdictcache.HeldOut{},
		Repeat: max(1, repeat), Limits: limitsOf(c), Verifier: verifierIdentity(), Sandbox: sb.Describe(), Host: host}
	for _, h := range c.HeldOutTests {
		k.HeldOut = append(k.HeldOut, verdictcache.HeldOut{Path: h.Path, SHA256: h.SHA256})
	}
	return k, nil
}

// verdicts opens the cache for a run, nil where it is not to be used.
func (r *run) verdicts() *verdictcache.Cache {
	if !r.VerdictCache || r.Sandbox == nil || r.Sandbox.Describe().Driver == sandbox.DriverNone {
		return nil
	}
	c, err := verdictcache.Open(r.Home.VerdictDir(), r.clock)
	if err != nil {
		r.tell("verdict.cache", "skipped", r.scrub(err.Error()))
		return nil
	}
	return c
}

// baseCache is the cache as the base phase of one run uses it.
type baseCache struct {
	cache *verdictcache.Cache
	key   []byte
}

// baseCache opens the cache for the base phase. Without it the phase is run,
// so what goes wrong here is only reported.
func (r *run) baseCache(ctx context.Context) *baseCache {
	cache := r.verdicts()
	if cache == nil {
		return nil
	}
	done := r.times.Begin("environment")
	defer done()
	k, err := newVerdictKey(ctx, r.Sandbox, r.checkout.Dir, r.base.Tree, r.Contract, r.Repeat)
	var key []byte
	if err == nil {
		key, err = k.Encode()
	}
	if err != nil {
		if ctx.Err() == nil {
			r.tell("verdict.cache", "skipped", r.scrub(err.Error()))
		}
		return nil
	}
	return &baseCache{cache, key}
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
	cache *verdictcache.Cache
	key   []byte
	log   verdictcache.Recorder
	host  func(context.Context) (string, error) // what the commands see of the host now
	saw   string                                // and saw when the key was made
}

// verdicts opens the cache for a verification, nil where it is not to be used.
// It is a convenience, so what keeps it from working is only reported.
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
	cache, err := verdictcache.Open(req.Home.VerdictDir(), req.Clock)
	if err == nil {
		var k verdictcache.Key
		if k, err = newVerdictKey(ctx, req.Sandbox, lower, baseline, rec.contract, req.Repeat); err == nil {
			k.Kind, k.PatchSHA256, k.HeadTree = verdictcache.KindVerdict, *rec.receipt.PatchSHA256, *rec.receipt.HeadTree
			saw = k.Host
			key, err = k.Encode()
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
	return &verdictStore{cache: cache, key: key, saw: saw,
		host: func(ctx context.Context) (string, error) { return verdictcache.HostView(ctx, req.Sandbox, lower) }}, nil
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
	if now, err := v.host(ctx); err != nil || now != v.saw {
		v.cache.Drop(v.key)
		return nil //nolint:nilerr // it may not be kept, which is no failure
	}
	return v.cache.KeepVerdict(v.key, before, after, verdict, &v.log)
}
