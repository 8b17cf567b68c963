package harness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"remit/law/task"
	"remit/proof/canon"
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
	Program      string                    `json:"program_sha256"` // of this executable
	Sandbox      sandbox.Description       `json:"sandbox"`
	Environment  string                    `json:"environment_sha256"` // what the commands see of the host
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
	program, err := programDigest()
	if err != nil {
		return verdictKey{}, err
	}
	environment, err := environmentDigest(ctx, sb, lower)
	if err != nil {
		return verdictKey{}, err
	}
	k := verdictKey{Format: 1, Kind: baseResult, BaselineTree: baseline, Commands: c.VerificationCommands, Groups: c.VerificationGroups, Shared: c.SharedView(), Verify: c.Verify, TestsRule: string(c.Tests), HeldOut: []heldOutKey{},
		Repeat: max(1, repeat), Limits: limitsOf(c), Verifier: verifierIdentity(), Program: program, Sandbox: sb.Describe(), Environment: environment}
	for _, h := range c.HeldOutTests {
		k.HeldOut = append(k.HeldOut, heldOutKey{h.Path, h.SHA256})
	}
	return k, nil
}

// programDigest is that of the running program: another build is another
// verifier, whatever its sources say.
var programDigest = sync.OnceValues(func() (string, error) {
	name, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	defer f.Close()
	digest, _, err := canon.DigestReader(f)
	return digest, err
})

// environmentScript prints what the commands of a verification see of the
// host: which programs there are and when they were changed, what the usual
// languages find installed, and which modules are lent to this baseline. It
// runs in the sandbox over the baseline, and runs nothing of it.
const environmentScript = `uname -srm; printf '%s\n' "$PATH"
IFS=:; for d in $PATH; do ls -lLn "$d"; done; unset IFS
ls -ldn /usr/lib /usr/lib64 /usr/local/lib /usr/lib/node_modules /usr/local/lib/node_modules /usr/share/java /etc/alternatives 2>/dev/null
for p in go python3 node java cargo ruby; do command -v $p; done
if command -v go >/dev/null; then go version; go env GOROOT GOMODCACHE GOFLAGS CGO_ENABLED
m=$(go env GOMODCACHE); [ -d "$m" ] && find "$m" \( -name '*.ziphash' -o -name '*.mod' -o -type d -name '*@*' -prune \) -print | LC_ALL=C sort; fi
if command -v python3 >/dev/null; then python3 -I -c 'import os, sys
print(sys.version)
for p in sys.path:
    print(p, os.stat(p).st_mtime_ns if os.path.exists(p) else None)'; fi
command -v node >/dev/null && node --version
:`

const (
	environmentWall = 30 * time.Second
	maxEnvironment  = 32 << 20
)

// environmentDigest runs the script.
func environmentDigest(ctx context.Context, sb sandbox.Driver, lower string) (string, error) {
	limits := sandbox.DefaultLimits()
	limits.Wall, limits.OutputBytes = environmentWall, maxEnvironment
	sum := sha256.New()
	seen := new(counter)
	res, err := sb.Run(ctx, sandbox.Spec{Lower: lower, Limits: limits, Env: map[string]string{"GOENV": "off", "GOTOOLCHAIN": "local", "PYTHONDONTWRITEBYTECODE": "1"},
		Commands: []sandbox.Command{{Argv: []string{"sh", "-c", environmentScript}, Stdout: io.MultiWriter(sum, seen), Stderr: io.Discard}}})
	if err != nil {
		return "", fmt.Errorf("looking at the environment: %w", err)
	}
	if len(res.Commands) != 1 || !res.Commands[0].Started || res.Commands[0].ExitCode != 0 || res.Commands[0].TimedOut || res.Commands[0].OutputExceeded || seen.n == 0 {
		return "", errors.New("looking at the environment: the look did not come to its end")
	}
	return canon.DigestSum(sum), nil
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
