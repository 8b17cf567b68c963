package task

import (
	"github.com/goccy/go-yaml/ast"

	"remit/proof/reason"
)

// contractKeys are the keys of a task file, each bound to its field. The
// canonical form uses the same keys, so that it can be read as a task file.
func contractKeys(c *Contract) []key {
	return append([]key{
		{"schema", text(&c.Schema)},
		{"task_id", text(&c.TaskID)},
		{"title", text(&c.Title)},
		{"instructions", text(&c.Instructions)},
		{"issue", optional(&c.Issue, func(i *Issue) reader { return object(issueKeys(i)) })},
		{"target_repository", text(&c.TargetRepository)},
		{"base", text(&c.Base)},
		{"held_out_tests", heldOutTests(&c.HeldOutTests)},
		{"expect_diff", boolean(&c.ExpectDiff)},
		{"evidence_expectations", texts(&c.EvidenceExpectations)},
		{"verification_groups", groupLengths(c)},
	}, ruleKeys(c)...)
}

// ruleKeys are the keys that task files and policies share.
func ruleKeys(c *Contract) []key {
	return []key{
		{"authority_basis", text(&c.AuthorityBasis)},
		{"risk_class", text(&c.RiskClass)},
		{"allowed_paths", texts(&c.AllowedPaths)},
		{"forbidden_paths", texts(&c.ForbiddenPaths)},
		{"protected_paths", texts(&c.ProtectedPaths)},
		{"forbidden_actions", texts(&c.ForbiddenActions)},
		{"allow_ops", texts(&c.AllowOps)},
		{"allow_symlinks", boolean(&c.AllowSymlinks)},
		{"allow_submodules", boolean(&c.AllowSubmodules)},
		{"mutation_mode", mode(&c.MutationMode)},
		{"approval_required", boolean(&c.ApprovalRequired)},
		{"verification_commands", commandList(c)},
		{"tests", text(&c.Tests)},
		{"require_clean", boolean(&c.RequireClean)},
		{"budget", budget(&c.Budget)},
		{"limits", object(limitKeys(&c.Limits))},
		{"network", text(&c.Network)},
		{"policy_bundle_id", text(&c.PolicyBundleID)},
		{"lifecycle", object(lifecycleKeys(&c.Lifecycle))},
		{"verify", object(verifyKeys(&c.Verify))},
	}
}

func issueKeys(i *Issue) []key {
	return []key{
		{"number", optional(&i.Number, integer)},
		{"url", text(&i.URL)},
		{"source", text(&i.Source)},
	}
}

func limitKeys(l *Limits) []key {
	return []key{
		{"cpus_milli", integer(&l.CPUsMilli)},
		{"memory_mb", integer(&l.MemoryMB)},
		{"pids", integer(&l.Pids)},
		{"disk_mb", integer(&l.DiskMB)},
		{"output_bytes", integer(&l.OutputBytes)},
		{"changed_paths", integer(&l.ChangedPaths)},
		{"patch_mb", integer(&l.PatchMB)},
	}
}

// budget reads the amount in one of its two units. Both at once would be two
// sources of truth.
func budget(b *Budget) reader {
	var inUSD, inMicro *int64
	keys := []key{
		{"max_budget_usd", optional(&inUSD, usd)},
		{"max_budget_micro_usd", optional(&inMicro, integer)},
		{"max_tokens", optional(&b.MaxTokens, integer)},
		{"wall_seconds", optional(&b.WallSeconds, integer)},
		{"max_requests", optional(&b.MaxRequests, integer)},
		{"idle_seconds", optional(&b.IdleSeconds, integer)},
	}
	return func(r *report, field string, n ast.Node) {
		inUSD, inMicro = nil, nil
		object(keys)(r, field, n)
		b.MaxBudgetMicroUSD = inMicro
		if inUSD != nil {
			b.MaxBudgetMicroUSD = inUSD
		}
		if inUSD != nil && inMicro != nil {
			r.field(join(field, "max_budget_micro_usd"), reason.ContractValue, "keep one of the two",
				"max_budget_usd states the same limit")
		}
	}
}

func heldOutTests(to *[]HeldOutTest) reader {
	return list(func(count int) { *to = make([]HeldOutTest, count) }, func(i int) reader {
		h := &(*to)[i]
		return object([]key{{"path", text(&h.Path)}, {"source", text(&h.Source)}, {"sha256", text(&h.SHA256)}})
	})
}

func mode(to *MutationMode) reader {
	return func(r *report, field string, n ast.Node) {
		var name string
		before := len(r.problems)
		if text(&name)(r, field, n); len(r.problems) > before {
			return
		}
		m, err := ParseMutationMode(name)
		if err != nil {
			r.add(placeOfNode(n), field, reason.ContractValue, didYouMean(name, modeNames[:]), "unknown mutation mode %q", name)
			return
		}
		*to = m
	}
}
