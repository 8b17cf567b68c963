package task

import (
	"fmt"
	"slices"
	"strings"

	"remit/proof/reason"
)

// Flags are what the command line may say about a contract. The zero value
// says nothing.
type Flags struct {
	Allow             []string      // globs; narrow the allowed paths, or set them when the contract states none
	Forbid            []string      // globs; added
	Verify            []string      // commands; added, never replacing one
	Base              string        // revision; only where the contract leaves it at HEAD
	Tests             TestsRule     // the same or stricter
	MutationMode      *MutationMode // the same or narrower
	ApprovalRequired  bool          // true adds the requirement
	MaxBudgetMicroUSD *int64        // the same or lower
	MaxTokens         *int64        // the same or lower
	WallSeconds       *int64        // the same or lower
	MaxRequests       *int64        // the same or lower
	IdleSeconds       *int64        // the same or lower
	Lifecycle         LifecycleRule // the same or stricter
	Verification      Verify        // the same or stricter, key by key
}

// commandLine stands in the file field of problems with flags.
const commandLine = "command line"

// Narrow returns the contract with the flags applied. A flag that would give
// the run more than the contract is an error with code contract_flag_widens,
// and so is everything that [Contract.Validate] finds in the result. The
// original is not changed.
//
// When a task file or a policy stated the allowed paths, each --allow glob must
// be covered by one of them, decided by their text alone: it is equal to it, or
// lies below it ("src/api/**" below "src/**"), or is a plain name that it
// matches. This refuses some globs that would be narrower; it never accepts a
// wider one.
func Narrow(c *Contract, flags Flags) (*Contract, error) {
	out := c.clone()
	r := newReport(commandLine)
	out.narrowPaths(r, flags)
	out.addCommands(flags.Verify)
	out.ApprovalRequired = out.ApprovalRequired || flags.ApprovalRequired
	if flags.Base != "" && flags.Base != out.Base {
		if out.Base != DefaultBase {
			r.widens("--base", "the contract starts from %q", out.Base)
		}
		out.Base = flags.Base
	}
	if flags.Tests != "" {
		if looser(flags.Tests, out.Tests) {
			r.widens("--tests", "%s is looser than %s, the rule that the contract of this run has from task file, policy or the run that it continues", flags.Tests, out.Tests)
		}
		out.Tests = flags.Tests
	}
	if flags.MutationMode != nil {
		if flags.MutationMode.Exceeds(out.MutationMode) {
			r.widens("--mutation-mode", "%s is wider than %s", *flags.MutationMode, out.MutationMode)
		}
		out.MutationMode, out.anyMode = *flags.MutationMode, false
	}
	r.lowers("--max-usd", &out.Budget.MaxBudgetMicroUSD, flags.MaxBudgetMicroUSD)
	r.lowers("--max-tokens", &out.Budget.MaxTokens, flags.MaxTokens)
	r.lowers("--wall", &out.Budget.WallSeconds, flags.WallSeconds)
	r.lowers("--max-requests", &out.Budget.MaxRequests, flags.MaxRequests)
	r.lowers("--idle", &out.Budget.IdleSeconds, flags.IdleSeconds)
	if flags.Lifecycle == LifecycleAllow && !out.Lifecycle.AllowsTimeout() {
		r.widens("--timeout-after-valid-patch", "%s is looser than %s", flags.Lifecycle, LifecycleBlock)
	}
	if flags.Lifecycle != "" {
		out.Lifecycle.TimeoutAfterValidPatch = flags.Lifecycle
	}
	for _, w := range flags.Verification.weakens(out.Verify) {
		e := "--" + w.key
		r.add(place{}, e, reason.ContractNarrowing, "write verify."+w.key+" into the "+PolicyFile+" of the base commit", "%s is weaker than %s", w.asked, w.held)
	}
	checkVerify(r, flags.Verification)
	out.Verify = out.Verify.strengthened(flags.Verification)
	check(r, out)
	if err := r.err(); err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Contract) narrowPaths(r *report, flags Flags) {
	c.ForbiddenPaths = union(c.ForbiddenPaths, flags.Forbid)
	if len(flags.Allow) == 0 {
		return
	}
	if c.bounded {
		for _, glob := range flags.Allow {
			if checkGlob(glob) == nil && !slices.ContainsFunc(c.AllowedPaths, func(allowed string) bool { return covers(allowed, glob) }) {
				r.widens("--allow", "%q is not covered by allowed_paths %s", glob, some(c.AllowedPaths))
			}
		}
	}
	c.AllowedPaths = slices.Clone(flags.Allow)
}

// widens has the hint of its code, which a check has another one of.
func (r *report) widens(flag, format string, args ...any) {
	r.add(place{}, flag, reason.ContractNarrowing, "", "%s", fmt.Sprintf(format, args...))
}

// lowers takes a limit from a flag.
func (r *report) lowers(flag string, limit **int64, to *int64) {
	if to == nil {
		return
	}
	if *limit != nil && *to > **limit {
		r.widens(flag, "%d is more than %d", *to, **limit)
	}
	value := *to
	*limit = &value
}

// covers reports whether every name that glob allows is allowed by outer,
// judged by the text of the two. Both must be valid. False only says that the
// text does not show it.
func covers(outer, glob string) bool {
	if outer == glob {
		return true
	}
	if below, ok := tree(outer); ok {
		inner := glob
		if top, isTree := tree(glob); isTree {
			if top == below {
				return true
			}
			inner = top + "/**"
		}
		return below == "" || strings.HasPrefix(inner, below+"/")
	}
	return isPlain(glob) && !strings.HasSuffix(glob, "/") && compile(outer).allows(glob)
}
