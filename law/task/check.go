package task

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"remit/proof/canon"
	"remit/proof/form"
	"remit/proof/reason"
)

// Limits of what a contract may hold. They are generous for a person and small
// for a program that walks the lists for every changed file.
const (
	MaxListEntries  = 1000
	MaxLineRunes    = 500
	MaxCommandBytes = 16 << 10
	MaxWallSeconds  = 7 * 24 * 60 * 60
)

// Validate checks a contract that was made or changed in memory. The error is
// Problems.
func (c *Contract) Validate() error {
	r := newReport("")
	check(r, c)
	return r.err()
}

// check holds a contract against every rule that goes beyond the type of a
// single value.
func check(r *report, c *Contract) {
	checkIdentity(r, c)
	checkPaths(r, c)
	checkRules(r, c)
	checkHeldOut(r, c.HeldOutTests)
	checkInstructionsFrom(r, c.InstructionsFrom)
	checkNumbers(r, c)
}

// checkPaths holds the globs, and demands that a mutating contract allows
// something.
func checkPaths(r *report, c *Contract) {
	for _, l := range []struct {
		field string
		globs []string
	}{{"allowed_paths", c.AllowedPaths}, {"forbidden_paths", c.ForbiddenPaths}, {"protected_paths", c.ProtectedPaths}} {
		if !checkLength(r, l.field, len(l.globs)) {
			continue
		}
		for i, glob := range l.globs {
			if err := checkGlob(glob); err != nil {
				r.field(fmt.Sprintf("%s[%d]", l.field, i), reason.ContractGlob,
					"globs are relative and slash-separated, as in src/**/*.go; a trailing / means the tree below", "%q: %v", glob, err)
			}
		}
	}
	if len(c.AllowedPaths) == 0 && c.MutationMode != ModeNone {
		hint := `list the globs that may change, as in allowed_paths: ["src/**"], or set mutation_mode: none`
		if !c.bounded {
			hint = "let `remit init` write remit.yaml, or give --allow GLOB"
		}
		r.field("allowed_paths", reason.ContractMissingKey, hint, "mutation mode %s needs allowed_paths", c.MutationMode)
	}
}

var (
	taskIDForm = form.Lazy(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?$`)
	bundleForm = form.Lazy(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$`)
	actionForm = form.Lazy(`^[a-z][a-z0-9_]{0,63}$`)
)

func checkIdentity(r *report, c *Contract) {
	if c.Schema != Schema && c.Schema != SchemaV1 {
		r.field("schema", reason.ContractValue, "leave the key out, or write "+Schema, "unknown schema %q", c.Schema)
	}
	switch {
	case c.TaskID == "":
		r.field("task_id", reason.ContractMissingKey, "a short name, as in task_id: fix-parser", "task_id is missing")
	case !taskIDForm().MatchString(c.TaskID) || isDeviceName(c.TaskID):
		r.field("task_id", reason.ContractValue, "letters, digits, '.', '_' and '-', at most 64: it becomes a directory name; for example "+Slug(c.TaskID),
			"%q cannot be a task id", c.TaskID)
	}
	if strings.TrimSpace(c.Instructions) == "" {
		r.field("instructions", reason.ContractMissingKey, "say what the agent is to do", "instructions are missing")
	}
	checkText(r, "instructions", c.Instructions, true)
	for _, line := range []struct{ field, value string }{
		{"title", c.Title}, {"target_repository", c.TargetRepository}, {"authority_basis", c.AuthorityBasis},
	} {
		checkText(r, line.field, line.value, false)
	}
	if strings.HasPrefix(c.TargetRepository, "-") || strings.Contains(c.TargetRepository, "::") {
		r.field("target_repository", reason.ContractValue, "", "%q could be taken for an option or a remote helper", c.TargetRepository)
	}
	if !isRevision(c.Base) {
		r.field("base", reason.ContractValue, "a branch, tag or commit, as in main or v1.2.0", "%q cannot be a revision", c.Base)
	}
	if !bundleForm().MatchString(c.PolicyBundleID) {
		r.field("policy_bundle_id", reason.ContractValue, "as in "+DefaultPolicyBundle, "%q cannot be a policy bundle id", c.PolicyBundleID)
	}
	if c.Issue != nil {
		checkIssue(r, c.Issue)
	}
}

func checkIssue(r *report, i *Issue) {
	if i.Number != nil && (*i.Number < 1 || *i.Number > maxInteger) {
		r.field("issue.number", reason.ContractValue, "", "issue numbers start at 1")
	}
	checkText(r, "issue.source", i.Source, false)
	checkText(r, "issue.url", i.URL, false)
	if i.URL != "" {
		u, err := url.Parse(i.URL)
		if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil {
			r.field("issue.url", reason.ContractValue, "an http or https address without a user name", "not an issue address")
		}
	}
}

// checkRules holds the enumerations and lists that decide what is enforced.
func checkRules(r *report, c *Contract) {
	oneOf(r, "risk_class", c.RiskClass, RiskClasses())
	oneOf(r, "tests", c.Tests, TestsRules())
	oneOf(r, "network", c.Network, Networks())
	checkLifecycle(r, c.Lifecycle)
	checkVerify(r, c.Verify)
	if !c.MutationMode.Valid() {
		r.field("mutation_mode", reason.ContractValue, "", "unknown mutation mode %d", int(c.MutationMode))
	}
	if checkLength(r, "allow_ops", len(c.AllowOps)) {
		for i, op := range c.AllowOps {
			oneOf(r, fmt.Sprintf("allow_ops[%d]", i), op, Permissions())
		}
	}
	checkActions(r, c)
	checkCommands(r, c.VerificationCommands)
	checkGroups(r, c)
	if checkLength(r, "evidence_expectations", len(c.EvidenceExpectations)) {
		for i, name := range c.EvidenceExpectations {
			checkText(r, fmt.Sprintf("evidence_expectations[%d]", i), name, false)
		}
	}
}

func checkCommands(r *report, commands []string) {
	if !checkLength(r, "verification_commands", len(commands)) {
		return
	}
	for i, command := range commands {
		field := fmt.Sprintf("verification_commands[%d]", i)
		switch {
		case strings.TrimSpace(command) == "":
			r.field(field, reason.ContractValue, "remove it, or write a command", "empty command")
		case len(command) > MaxCommandBytes:
			r.field(field, reason.ContractValue, "put it in a script", "command of %d bytes, at most %d", len(command), MaxCommandBytes)
		}
		checkText(r, field, command, true)
	}
}

// checkActions demands the default forbidden actions by name: a contract that
// leaves one out would read as if it were allowed.
func checkActions(r *report, c *Contract) {
	const field = "forbidden_actions"
	if c.ForbiddenActions == nil {
		r.field(field, reason.ContractMissingKey, "write forbidden_actions: ["+strings.Join(defaultForbiddenActions, ", ")+"]",
			"forbidden_actions is missing")
		return
	}
	if !checkLength(r, field, len(c.ForbiddenActions)) {
		return
	}
	for i, action := range c.ForbiddenActions {
		if !actionForm().MatchString(action) {
			r.field(fmt.Sprintf("%s[%d]", field, i), reason.ContractValue, didYouMean(action, defaultForbiddenActions), "%q cannot be an action", action)
		}
	}
	var left []string
	for _, action := range defaultForbiddenActions {
		if !slices.Contains(c.ForbiddenActions, action) {
			left = append(left, action)
		}
	}
	if len(left) > 0 && c.MutationMode != ModeNone {
		r.field(field, reason.ContractValue, "add "+strings.Join(left, ", "), "a mutating contract must forbid %s", strings.Join(left, ", "))
	}
}

func checkHeldOut(r *report, tests []HeldOutTest) {
	if !checkLength(r, "held_out_tests", len(tests)) {
		return
	}
	seen := map[string]bool{}
	for i, h := range tests {
		field := fmt.Sprintf("held_out_tests[%d]", i)
		for _, name := range []struct{ field, value string }{{field + ".path", h.Path}, {field + ".source", h.Source}} {
			if name.value == "" {
				r.field(name.field, reason.ContractMissingKey, "name a file", "%s is missing", name.field)
			} else if code, why := badName(name.value); code != "" || strings.Contains(name.value, `\`) {
				r.field(name.field, reason.ContractValue, "a relative, slash-separated file name", "%q: %s", name.value, why)
			}
			checkText(r, name.field, name.value, false)
		}
		if slices.Contains(strings.Split(fold(h.Path), "/"), ".git") {
			r.field(field+".path", reason.ContractValue, "", "%q would change git's own data", h.Path)
		}
		if seen[fold(h.Path)] {
			r.field(field+".path", reason.ContractValue, "remove one of the two", "%q stands in the list twice", h.Path)
		}
		seen[fold(h.Path)] = true
		if h.SHA256 != "" && !canon.ValidDigest(h.SHA256) {
			r.field(field+".sha256", reason.ContractValue, "sha256: and 64 lower-case hex digits", "%q is not a digest", h.SHA256)
		}
	}
}

func checkNumbers(r *report, c *Contract) {
	number := func(field string, n *int64, least, most int64) {
		if n != nil && (*n < least || *n > most) {
			r.field(field, reason.ContractValue, "leave the key out for the default", "%d is not between %d and %d", *n, least, most)
		}
	}
	number("budget.max_budget_micro_usd", c.Budget.MaxBudgetMicroUSD, 0, maxInteger)
	number("budget.max_tokens", c.Budget.MaxTokens, 0, maxInteger)
	number("budget.wall_seconds", c.Budget.WallSeconds, 1, MaxWallSeconds)
	number("budget.max_requests", c.Budget.MaxRequests, 0, maxInteger)
	number("budget.idle_seconds", c.Budget.IdleSeconds, 1, MaxWallSeconds)
	number("limits.cpus_milli", &c.Limits.CPUsMilli, 0, maxInteger)
	number("limits.memory_mb", &c.Limits.MemoryMB, 0, maxInteger)
	number("limits.pids", &c.Limits.Pids, 0, maxInteger)
	number("limits.disk_mb", &c.Limits.DiskMB, 0, maxInteger)
	number("limits.output_bytes", &c.Limits.OutputBytes, 0, maxInteger)
	number("limits.changed_paths", &c.Limits.ChangedPaths, 0, MaxChangedPaths)
	number("limits.patch_mb", &c.Limits.PatchMB, 0, MaxPatchMB)
}

// checkLength reports whether the entries of a list are worth looking at.
func checkLength(r *report, field string, n int) bool {
	if n > MaxListEntries {
		r.field(field, reason.ContractValue, "", "%d entries, at most %d", n, MaxListEntries)
	}
	return n <= MaxListEntries
}

func oneOf[T ~string](r *report, field string, value T, known []T) {
	if slices.Contains(known, value) {
		return
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = string(k)
	}
	r.field(field, reason.ContractValue, didYouMean(string(value), names), "unknown value %q", string(value))
}

// checkText refuses text that a person would read differently than a program:
// control characters, direction overrides, invisible tag characters. The
// person who approves a contract must see all of it.
func checkText(r *report, field, value string, lines bool) {
	hidden := strings.IndexFunc(value, func(c rune) bool {
		switch c {
		case '\n', '\t':
			return !lines
		case '\u2028', '\u2029', '\ufeff', utf8.RuneError:
			return true
		}
		return unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) || c >= 0xE0000 && c <= 0xE0FFF
	})
	switch {
	case hidden >= 0:
		c, _ := utf8.DecodeRuneInString(value[hidden:])
		r.field(field, reason.ContractValue, "remove the character", "control or invisible character %U", c)
	case !lines && utf8.RuneCountInString(value) > MaxLineRunes:
		r.field(field, reason.ContractValue, "put details into instructions", "more than %d characters", MaxLineRunes)
	}
}

// isRevision accepts what names one commit and cannot be taken for an option,
// a range or a pathspec.
func isRevision(rev string) bool {
	if rev == "" || len(rev) > 250 || strings.HasPrefix(rev, "-") || strings.Contains(rev, "..") {
		return false
	}
	return !strings.ContainsFunc(rev, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("._/@{}~^+-", c)
	})
}

// maxImageText bounds the name of an image.
const maxImageText = 500

// ImageDigest is the digest of the environment's image, "" for none.
func (e Environment) ImageDigest() string {
	_, digest, _ := strings.Cut(e.Image, "@")
	return digest
}

// checkImage wants a digest: what a tag means changes, and a verdict is about one
// image.
func checkImage(r *report, field, image string) {
	if image == "" {
		return
	}
	strange := func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune("\"'`\\$", c) }
	name, digest, _ := strings.Cut(image, "@")
	if name == "" || len(image) > maxImageText || strings.ContainsFunc(image, strange) || !canon.ValidDigest(digest) {
		r.field(field, reason.ContractValue, "write NAME@sha256:DIGEST; `remit env image pull NAME:TAG` prints it",
			"%.200q is no image with its digest", image)
	}
}
