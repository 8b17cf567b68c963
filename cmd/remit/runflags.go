package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"remit/law/task"
	"remit/nexus/approval"
	"remit/nexus/jobs"
	"remit/nexus/requester"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/workspace"
)

// limitFlags lower what a run may spend. A flag that is not given changes
// nothing, and 0 is a limit like any other.
type limitFlags struct {
	usd       amount
	tokens    amount
	requests  amount
	wall      amount
	idle      amount
	lifecycle string
}

func (f *limitFlags) add(cmd *cobra.Command) {
	f.usd.read = task.ParseUSD
	fl := cmd.Flags()
	fl.Var(&f.usd, "max-usd", "lower what the model may cost, in dollars, such as 1.50")
	fl.Var(&f.tokens, "max-tokens", "lower how many tokens the engine may use, of all kinds together")
	fl.Var(&f.requests, "max-requests", "lower how many requests the engine may make of the model")
	fl.Var(&f.wall, "wall", "lower how many seconds the engine has, and each verification phase")
	fl.Var(&f.idle, "idle", "lower after how many seconds an engine is stopped that prints nothing and asks nothing")
	fl.StringVar(&f.lifecycle, "timeout-after-valid-patch", "",
		"what becomes of a run whose engine had to be stopped and left a change that verifies: block, or allow (where the contract does, or in a run from flags alone whose remit.yaml says nothing of it)")
	choose(cmd, "timeout-after-valid-patch", names(task.LifecycleRules()))
}

// flags adds them to those that narrow a contract.
func (f *limitFlags) flags(to *task.Flags) {
	to.MaxBudgetMicroUSD, to.MaxTokens, to.MaxRequests = f.usd.value, f.tokens.value, f.requests.value
	to.WallSeconds, to.IdleSeconds = f.wall.value, f.idle.value
	to.Lifecycle = task.LifecycleRule(f.lifecycle)
}

// amount is a flag with a number that may be left out.
type amount struct {
	value *int64
	text  string
	read  func(string) (int64, error) // nil: a whole number
}

// Set implements pflag.Value.
func (a *amount) Set(text string) error {
	read := a.read
	if read == nil {
		read = wholeNumber
	}
	n, err := read(text)
	if err != nil {
		return err
	}
	a.value, a.text = &n, text
	return nil
}

func (a *amount) String() string { return a.text }

// Type is what the help calls the value.
func (a *amount) Type() string { return "number" }

func wholeNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0, fmt.Errorf("%q is not a whole number from 0 on, in digits alone", text)
	}
	return n, nil
}

// thoroughFlags ask for a more thorough verification than the base commit's
// policy does.
type thoroughFlags struct {
	control, scheme, observe string
	require                  []string
}

func (f *thoroughFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	for _, flag := range []struct {
		to     *string
		name   string
		usage  string
		values []string
	}{
		{&f.control, "control", "whether tests must be shown to be able to fail", names(task.Controls())},
		{&f.scheme, "scheme", "which tests are controlled: every one, or fixed and held-out ones", names(task.Schemes())},
		{&f.observe, "observe", "which parts of the change are tried without, to see if a test notices", names(task.Observes())},
	} {
		fl.StringVar(flag.to, flag.name, "", flag.usage+"; ask for more than remit.yaml does: "+strings.Join(flag.values, ", "))
		choose(cmd, flag.name, flag.values)
	}
	fl.StringArrayVar(&f.require, "require", nil, "what the change has to show: observed (repeatable)")
	choose(cmd, "require", names(task.Requirements()))
}

// names are the words of an enumeration.
func names[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// flags adds them to those that narrow a contract.
func (f *thoroughFlags) flags(to *task.Flags) {
	to.Verification = task.Verify{Control: task.Control(f.control), Scheme: task.Scheme(f.scheme), Observe: task.Observe(f.observe)}
	for _, r := range f.require {
		to.Verification.Require = append(to.Verification.Require, task.Requirement(r))
	}
}

// approvalFlags say what a run does about the approval of its contract.
type approvalFlags struct {
	approve, requireApprove   bool
	waitApproval, approvalTTL time.Duration
	lowered                   []task.Lowered // by the policy
}

func (f *approvalFlags) addApproval(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.approve, "approve", false, "approve this contract as the operator at this terminal; under --nexus with a token that may decide")
	fl.BoolVar(&f.requireApprove, "require-approval", false, "block unless the contract is approved")
	fl.DurationVar(&f.waitApproval, "wait-approval", 0, "wait so long for an approval of the contract, e.g. 30m (default: ask, and block)")
	fl.DurationVar(&f.approvalTTL, "approval-ttl", 0, "how long a new request for an approval is good for, 1m to 168h (default 24h)")
}

// putBefore has the contract of a run put before its authority, if it asks for
// an approval. That is for one repository, under the name that every run of it
// has; its issue stays free for other runs.
func (f *runFlags) putBefore(req *harness.Request) (err error) {
	req.WaitApproval, req.ApprovalTTL, req.Lowered = f.waitApproval, f.approvalTTL, f.lowered
	if !req.Contract.NeedsApproval() {
		return nil
	}
	req.Unclaimed = true
	req.RepoRef, err = f.repositoryAt(req.Nexus)
	return err
}

// requester asks the authority about the run, and waits there for a provider as
// long as --wait says.
func (f *runFlags) requester(authority connect) (*requester.Requester, error) {
	if err := checkPrice(f.maxPrice); err != nil {
		return nil, err
	}
	switch {
	case f.silence != 0 && (f.silence < jobs.MinSilence || f.silence > jobs.MaxSilence):
		return nil, usagef("--end-after-silence %s: want 1m to 720h", f.silence)
	case f.wait < 0:
		return nil, usagef("--wait is %s, must be 0s or more", f.wait)
	case f.wait > 0 && f.nexus.named() == "":
		return nil, usagef("--wait is for a run with --nexus: the provider of this machine is always there")
	}
	q := requester.New(authority)
	q.Wait, q.Waiting = f.wait, func(most time.Duration, err error) {
		fmt.Fprintf(os.Stderr, "note: waiting for a provider for at most %s: %s\n", most, plainText(messageOf(err)))
	}
	return q, nil
}

// approvalTimes refuses times that no approval can have.
func (f *approvalFlags) approvalTimes() error {
	switch {
	case f.waitApproval < 0:
		return usagef("--wait-approval %s: must not be negative", f.waitApproval)
	case f.approvalTTL != 0 && (f.approvalTTL < approval.MinTTL || f.approvalTTL > approval.MaxTTL):
		return usagef("--approval-ttl %s: must be %s to %s", f.approvalTTL, approval.MinTTL, approval.MaxTTL)
	}
	return nil
}

// repositoryAt is how an authority calls the repository. A nexus has the name
// that people use; that of this machine has one for each directory, since
// directories have no names there, and does not say where it lies.
func (f *runFlags) repositoryAt(nexus string) (string, error) {
	if nexus != "" && f.repoRef != "" {
		return f.repoRef, checkRef(f.repoRef)
	}
	dir, err := filepath.Abs(f.repo)
	if err != nil || nexus != "" {
		return filepath.Base(dir), errors.Join(err, checkRef(filepath.Base(dir)))
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", asUsage(err)
	}
	name := strings.Map(func(c rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", c) {
			return c
		}
		return '-'
	}, filepath.Base(dir))
	digest := strings.TrimPrefix(canon.Digest([]byte(dir)), "sha256:")
	return "local:" + name[:min(len(name), 100)] + "@" + digest[:12], nil
}

// maxRepoRef is how long a nexus lets the name of a repository be, in bytes.
const maxRepoRef = 500

// checkRef refuses a name that no nexus takes, and says where it is given.
func checkRef(name string) error {
	if len(name) > maxRepoRef || strings.ContainsFunc(name, unicode.IsControl) {
		return usagef("the name of the repository at the nexus, %.60q, must be at most %d bytes without control characters: give another with --repo-ref", name, maxRepoRef)
	}
	return nil
}

// policyOf reads the policy of a repository: the remit.yaml at the top of its
// work tree, whatever directory of it was named. Where the work tree cannot be
// asked, because there is none or because it may differ from the commit, a
// policy that the base has counts: leaving the file out of sight must not
// lift it. How thoroughly a change is verified is the base's word in any case;
// notes says what in the work tree's file is passed over for it. Nil is no
// policy.
func policyOf(ctx context.Context, repo, base string, mayBeDirty bool) (policy *task.Policy, notes []string, err error) {
	src, err := workspace.OpenSource(ctx, repo)
	if err != nil {
		return nil, nil, err
	}
	committed, err := committedPolicy(ctx, src, base)
	if src.Bare() {
		return committed, nil, err
	}
	beside, found, lookErr := policyBeside(src)
	switch {
	case lookErr != nil:
		return nil, nil, lookErr
	case !found && mayBeDirty:
		return committed, nil, err
	case noBase(err):
		return beside, nil, nil
	case err != nil:
		return nil, nil, err
	}
	// A tracked file that is missing stops the run as a dirty start, if it is of HEAD.
	notes = beside.Overridden(committed)
	if found {
		note, err := uncommitted(beside, committed)
		if err != nil {
			return nil, nil, err
		}
		notes = append(note, notes...)
	}
	return beside.WithBase(committed), notes, nil
}

// uncommitted says that the policy of the work tree counts although it is not that
// of the base commit.
func uncommitted(beside, committed *task.Policy) ([]string, error) {
	here, err := beside.Digest()
	if err != nil {
		return nil, fmt.Errorf("digesting the policy: %w", err)
	}
	if committed == nil {
		return []string{task.PolicyFile + " counts as it is in the work tree; the base commit has none"}, nil
	}
	there, err := committed.Digest()
	if err != nil {
		return nil, fmt.Errorf("digesting the policy: %w", err)
	}
	if here == there {
		return nil, nil
	}
	return []string{task.PolicyFile + " counts as it is in the work tree, which differs from the base commit's"}, nil
}

// noBase reports that there is no commit to start from: the run says so, in its
// evidence.
func noBase(err error) bool {
	code := reason.CodeOf(err)
	return code == reason.BaseNotFound || code == reason.UnbornHead
}

// policyBeside reads the remit.yaml of the work tree.
func policyBeside(src *workspace.Source) (*task.Policy, bool, error) {
	path := filepath.Join(src.Root(), task.PolicyFile)
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, reason.Errorf(reason.ContractUnreadable, "reading the policy: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		// It could lead out of the repository, and messages quote what is wrong.
		e := reason.Errorf(reason.ContractUnreadable, "the policy is a symbolic link")
		e.File = path
		return nil, false, e.WithHint("a repository's policy is a file of its own")
	}
	policy, err := task.LoadPolicy(path)
	return policy, true, err
}

// committedPolicy reads the policy of a commit, nil if it has none.
func committedPolicy(ctx context.Context, src *workspace.Source, rev string) (*task.Policy, error) {
	text, err := src.ReadFile(ctx, rev, task.PolicyFile)
	if errors.Is(err, workspace.ErrNotRegular) {
		e := reason.Errorf(reason.ContractUnreadable, "the policy of the base commit is a symbolic link, or no file")
		e.File = task.PolicyFile
		return nil, e.WithHint("a repository's policy is a file of its own: commit one, or remove what is there")
	}
	if errors.Is(err, workspace.ErrNoFile) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return task.ParsePolicy(task.PolicyFile+" of the base commit", text)
}

// tellPolicy prints what of the work tree's policy does not count.
func tellPolicy(w io.Writer, notes []string) {
	for _, note := range notes {
		fmt.Fprintln(w, "note: "+plain(note)) // names patterns of strangers
	}
}

// checkDirectories refuses allowed paths that are directories of the base: such
// a path allows nothing below it, and the work of the engine would be for
// nothing.
func checkDirectories(ctx context.Context, repo string, c *task.Contract) error {
	names := c.PlainPaths()
	if len(names) == 0 {
		return nil
	}
	src, err := workspace.OpenSource(ctx, repo)
	if err != nil {
		return err
	}
	looked, err := src.Look(ctx, c.Base, names)
	if noBase(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for i, name := range names {
		if looked[i].Dir() {
			return reason.Errorf(reason.ContractGlob, "%q is a directory, and as a path it allows nothing below it", name).
				WithHint("write --allow '%[1]s/**', or %[1]s/** in allowed_paths", strings.ReplaceAll(name, "'", `'\''`))
		}
	}
	return nil
}
