package reason

import "cmp"

// HintFor is what to do about a reason in `remit check`, or anywhere else. A check has
// no engine, no task file and fewer flags than a run: where the hint of a run needs
// one, it has a hint of its own.
func (i Info) HintFor(check bool) string {
	if check {
		return cmp.Or(checkHints[i.Code], i.Hint)
	}
	return i.Hint
}

// checkHints are the hints of a check that differ from those of a run. What the policy
// says is that of the base commit, so every way through it begins with a commit there.
var checkHints = map[Code]string{
	NoDiff:              "the change makes no difference to the base: look at what --base and --head, or --patch, name",
	Timeout:             "raise the limit that the message is about, such as budget.wall_seconds, in remit.yaml of the base, or make the tests faster",
	InfrastructureFault: "`remit doctor` checks this machine; then check again",
	Interrupted:         "`remit show SESSION` says where it stopped; check again",
	Cancelled:           "check again",
	BudgetExhausted:     "raise the budget in remit.yaml of the base",
	DisallowedFileChange: "proofs/allowed-writes.json names path and rule; " +
		"leave the path alone, or widen allowed_paths in remit.yaml of the base, in a change that is looked at by itself",
	ProtectedPath:      "leave the path out of the change: no policy allows it; docs/policy.md lists the protected paths",
	ChangeTooLarge:     "leave out what was generated (.gitignore), or split the change; limits.changed_paths and limits.patch_mb in remit.yaml of the base can only lower the bound",
	OpNotAllowed:       "leave it out of the change, or add the permission to allow_ops in remit.yaml of the base",
	SymlinkRefused:     "make it a plain file; allow_symlinks: true in remit.yaml of the base allows links that stay inside the allowed paths",
	SubmoduleRefused:   "leave it out of the change, or write allow_submodules: true into remit.yaml of the base",
	NestedRepository:   "its files cannot be part of a patch; leave its .git directory out of the change",
	MissingTestCommand: "give --verify CMD; or let `remit init` find one, and commit the remit.yaml that it writes to the base",
	VerifierTampering: "the finding names the test or file: keep the tests of the base, and what configures their runner, as they are, and add new tests beside them; " +
		"where they have to change, tests: free in remit.yaml of the base would record it instead",
	ControlMissing: "the message says why; verify.control: preferred in remit.yaml of the base accepts such a change with at most half of the confidence",
	BaseIncomplete: "raise the limit (budget.wall_seconds, limits.output_bytes) in remit.yaml of the base, " +
		"or have the command end by itself and say which tests failed, as go test -timeout 60s does",
	BaseTestGone:            "keep the old name; where a test has to go, tests: free in remit.yaml of the base lets a person decide (`remit init` writes one where there is none)",
	ChangeUnobserved:        "the report lists file and lines; add a test for each, or leave out what asks for it: --require observed, or verify.require in remit.yaml of the base",
	OutputLimit:             "limits.output_bytes in remit.yaml of the base raises the cap",
	ResourceLimit:           "the result names the cap; limits in remit.yaml of the base raises it",
	SourceRepositoryMutated: "proofs/source-nonmutation.json names what differs; without a sandbox nothing tells the check from another person's work there: leave --sandbox none out",
	TreeMismatch:            "the change has what no patch can hold: `git fsck` may name it",
	PatchInvalid:            "make the patch from the base commit, with `git diff --no-renames --binary` or `git format-patch --no-renames`",
	RegistryUnreachable:     "look at the registry that the message is about, at its credential and its CA, then check again",
	RegistryIncomplete:      "check again; the client reads the package anew",
	ContractUnreadable:      "the message names the file of the base: correct it there, and commit that",
	ContractMissingKey:      "state the key in remit.yaml of the base",
	ContractNarrowing:       "change remit.yaml of the base: flags can only ask for more than it does",
	ContractTooLarge:        "shorten it, and commit that to the base",
}
