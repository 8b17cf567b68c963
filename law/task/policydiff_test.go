package task

import (
	"slices"
	"strings"
	"testing"
)

// TestComparePolicies: each change of a rule is said, in the direction that it has, and
// the way back says the opposite.
func TestComparePolicies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, after string
		effect        Effect
		key, says     string
	}{
		{"allowed_paths: [src/**]\n", "allowed_paths: [src/**, docs/**]\n", Allows, "allowed_paths", "docs/** may change"},
		{"allowed_paths: [src/**]\n", "tests: extend\n", Allows, "allowed_paths", "bounds the paths"},
		{"forbidden_paths: [a/**]\n", "forbidden_paths: []\n", Allows, "forbidden_paths", "a/**"},
		{"protected_paths: [a/**]\n", "tests: extend\n", Allows, "protected_paths", "protected no more"},
		{"allow_ops: [write]\n", "allow_ops: [write, delete]\n", Allows, "allow_ops", "delete"},
		{"allow_symlinks: false\n", "allow_symlinks: true\n", Allows, "allow_symlinks", "symbolic links"},
		{"allow_submodules: false\n", "allow_submodules: true\n", Allows, "allow_submodules", "submodules"},
		{"approval_required: true\n", "approval_required: false\n", Allows, "approval_required", "no approval"},
		{"tests: protect\n", "tests: free\n", Allows, "tests", "tests is free, and was protect"},
		{"mutation_mode: copied-repo\n", "mutation_mode: scoped-real-repo\n", Allows, "mutation_mode", "scoped-real-repo"},
		{"mutation_mode: copied-repo\n", "tests: extend\n", Allows, "mutation_mode", "copied-repo"},
		{"risk_class: high\n", "risk_class: low\n", Allows, "risk_class", "low, and was high"},
		{"require_clean: true\n", "require_clean: false\n", Allows, "require_clean", "uncommitted"},
		{"budget: {max_tokens: 10}\n", "budget: {max_tokens: 20}\n", Allows, "budget.max_tokens", "at most 20, and was 10"},
		{"budget: {max_tokens: 10}\n", "tests: extend\n", Allows, "budget.max_tokens", "no limit"},
		{"limits: {patch_mb: 1}\n", "limits: {patch_mb: 2}\n", Allows, "limits.patch_mb", "at most 2"},
		{"tests: extend\n", "network: gateway\n", Allows, "network", "gateway"},
		{"engines: {codex: {enabled: false}}\n", "engines: {codex: {enabled: true}}\n", Allows, "engines", "codex is switched on"},
		{"lifecycle: {timeout_after_valid_patch: block}\n", "lifecycle: {timeout_after_valid_patch: allow}\n", Allows, "lifecycle", "stopped"},
		{"records: {signed: true}\n", "tests: extend\n", Allows, "records", "signature"},
		{"verification_commands: [a, b]\n", "verification_commands: [a]\n", Allows, "verification_commands", "need not pass b"},
		{"verify: {control: required}\n", "tests: extend\n", Allows, "verify.control", "less is verified"},
		{"verify: {require: [observed]}\n", "tests: extend\n", Allows, "verify", "observed"},
		{"tests: extend\n", "export: {actions: [push]}\n", Allows, "export", "push"},
		{"forbidden_actions: [sing]\n", "tests: extend\n", Allows, "forbidden_actions", "sing"},
	} {
		before, after := mustPolicy(t, c.before), mustPolicy(t, c.after)
		there, back := ComparePolicies(before, after), ComparePolicies(after, before)
		if !slices.ContainsFunc(there, func(d PolicyChange) bool {
			return d.Effect == c.effect && d.Key == c.key && strings.Contains(d.Sentence, c.says)
		}) {
			t.Errorf("%q to %q: %+v", c.before, c.after, there)
		}
		if !slices.ContainsFunc(back, func(d PolicyChange) bool { return d.Effect == Forbids && d.Key == c.key }) {
			t.Errorf("%q to %q: %+v", c.after, c.before, back)
		}
	}
}

// TestComparePoliciesMissesNothing: policies with other digests have a difference that
// is said, and a policy has none to itself.
func TestComparePoliciesMissesNothing(t *testing.T) {
	t.Parallel()
	full := mustPolicy(t, fullPolicy)
	if same := ComparePolicies(full, full); len(same) != 0 {
		t.Errorf("to itself: %+v", same)
	}
	if none := ComparePolicies(nil, nil); len(none) != 0 {
		t.Errorf("none to none: %+v", none)
	}
	if gone := ComparePolicies(full, nil); len(gone) == 0 || gone[0].Effect != Allows {
		t.Errorf("without a policy: %+v", gone)
	}
	lines := strings.Split(strings.TrimSuffix(fullPolicy, "\n"), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, " ") || line == "engines:" {
			continue
		}
		key, _, _ := strings.Cut(line, ":")
		less := mustPolicy(t, strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "\n")+"\n")
		said := ComparePolicies(full, less)
		if !slices.ContainsFunc(said, func(c PolicyChange) bool { return c.Key == key || strings.HasPrefix(c.Key, key+".") }) {
			t.Errorf("without %s: %+v", line, said)
		}
	}
	for _, text := range []string{"environment: {prepare: [{ecosystem: npm}]}\n", "model: {providers: {}}\n", "instructions_from: AGENTS.md\n", "policy_bundle_id: other\n"} {
		said := ComparePolicies(mustPolicy(t, "tests: extend\n"), mustPolicy(t, "tests: extend\n"+text))
		key, _, _ := strings.Cut(text, ":")
		if !slices.ContainsFunc(said, func(c PolicyChange) bool { return c.Key == key && c.Effect == Changes }) {
			t.Errorf("%s: %+v", text, said)
		}
	}
}
