package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/work/sandbox"
	"remit/work/verify"
)

// verdictKey is everything that a result of the verifier depends on, as far as
// it can be named. A result counts for a question with the same key, byte for
// byte.
type verdictKey struct {
	Format       int                       `json:"format"`
	Kind         string                    `json:"kind"` // base or verdict
	BaselineTree string                    `json:"baseline_tree"`
	PatchSHA256  string                    `json:"patch_sha256"` // "" for base
	HeadTree     string                    `json:"head_tree"`    // "" for base
	Commands     []string                  `json:"commands"`
	Groups       []int                     `json:"groups"`
	Shared       bool                      `json:"shared"`
	Verify       task.Verify               `json:"verify"`
	TestsRule    string                    `json:"tests_rule"`
	HeldOut      []heldOutKey              `json:"held_out"`
	Repeat       int                       `json:"repeat"`
	Limits       sandbox.Limits            `json:"limits"`
	Verifier     evidence.VerifierIdentity `json:"verifier"`
	Sandbox      sandbox.Description       `json:"sandbox"`
	Host         string                    `json:"host_view"` // this program, and what the commands see of the host
}

type heldOutKey struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

const (
	baseResult    = "base"
	verdictResult = "verdict"
)

// newVerdictKey names what a base phase over the checkout in lower depends on.
func newVerdictKey(ctx context.Context, sb sandbox.Driver, lower, baseline string, c *task.Contract, repeat int) (verdictKey, error) {
	host, err := hostView(ctx, sb, lower)
	if err != nil {
		return verdictKey{}, err
	}
	k := verdictKey{Format: 2, Kind: baseResult, BaselineTree: baseline, Commands: c.VerificationCommands, Groups: c.VerificationGroups, Shared: c.SharedView(), Verify: c.Verify, TestsRule: string(c.Tests), HeldOut: []heldOutKey{},
		Repeat: max(1, repeat), Limits: limitsOf(c), Verifier: verifierIdentity(), Sandbox: sb.Describe(), Host: host}
	for _, h := range c.HeldOutTests {
		k.HeldOut = append(k.HeldOut, heldOutKey{h.Path, h.SHA256})
	}
	return k, nil
}

// hostViewer is a driver that can name what its commands see of the host. Of
// one that cannot, nothing is cached.
type hostViewer interface {
	HostView(ctx context.Context, lower string) (digest string, err error)
}

// hostView names what the commands of a verification over lower see of the host.
func hostView(ctx context.Context, sb sandbox.Driver, lower string) (string, error) {
	v, ok := sb.(hostViewer)
	if !ok {
		return "", errors.New("the sandbox cannot say what its commands see of the host")
	}
	return v.HostView(ctx, lower)
}

// verdicts opens the cache for a run, nil where it is not to be used.
func (r *run) verdicts() *verdictCache {
	if !r.VerdictCache || r.Sandbox == nil || r.Sandbox.Describe().Driver == sandbox.DriverNone {
		return nil
	}
	c, err := openVerdicts(r.Home, r.clock)
	if err != nil {
		r.tell("verdict.cache", "skipped", r.scrub(err.Error()))
		return nil
	}
	return c
}

// baseCache is the cache as the base phase of one run uses it.
type baseCache struct {
	cache *verdictCache
	key   []byte
}

// baseCache opens the cache for the base phase. Without it the phase is run,
// so what goes wrong here is only told.
func (r *run) baseCache(ctx context.Context) *baseCache {
	cache := r.verdicts()
	if cache == nil {
		return nil
	}
	defer r.times.Begin("environment")()
	k, err := newVerdictKey(ctx, r.Sandbox, r.checkout.Dir, r.base.Tree, r.Contract, r.Repeat)
	var key []byte
	if err == nil {
		key, err = keyOf(k)
	}
	if err != nil {
		if ctx.Err() == nil {
			r.tell("verdict.cache", "skipped", r.scrub(err.Error()))
		}
		return nil
	}
	return &baseCache{cache, key}
}

// find returns the kept base phase and the log of it.
func (b *baseCache) find(commands []string) (*verify.PhaseResult, *verdictEntry) {
	if b == nil {
		return nil, nil
	}
	e := b.cache.get(b.key)
	if e == nil {
		return nil, nil
	}
	p, err := verify.ReadRecord(e.payload, commands)
	if err != nil {
		b.cache.drop(b.key)
		return nil, nil
	}
	return p, e
}

// keep keeps a base phase that was run just now, if it may be reused.
func (b *baseCache) keep(p *verify.PhaseResult, log []byte) error {
	if b == nil {
		return nil
	}
	record, err := p.Record()
	if err != nil {
		return nil //nolint:nilerr // it may not be kept, which is no failure
	}
	commands := make([]string, len(p.Commands))
	for i, c := range p.Commands {
		commands[i] = c.Command
	}
	return b.cache.put(b.key, record, log, func(earlier []byte) bool {
		before, err := verify.ReadRecord(earlier, commands)
		return err == nil && p.Same(before)
	})
}

// mark is the line of test.log in front of what the cache gave.
func (o origin) mark() string {
	return fmt.Sprintf("=== cached base key=%s made_at=%s\n\n", o.key, o.madeAt)
}

// replay is a base phase that was not run: its log, and its result.
func replay(p *verify.PhaseResult, e *verdictEntry) phaseFunc {
	return func(_ context.Context, _ verify.Sandbox, plan verify.Plan) (*verify.PhaseResult, error) {
		_, err := io.Copy(plan.Log, io.MultiReader(strings.NewReader(e.mark()), bytes.NewReader(e.log)))
		return p, err
	}
}
