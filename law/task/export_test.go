package task

import (
	"errors"
	"slices"
	"testing"

	"remit/proof/reason"
)

// TestExportPolicy: what an export may do is named, word by word, and by the policy
// alone: a task file comes from the person who wants the change.
func TestExportPolicy(t *testing.T) {
	t.Parallel()
	p, err := ParsePolicy("remit.yaml", []byte("export: {actions: [push, close]}\n"))
	if err != nil || !p.MayExport("push") || !p.MayExport("close") || p.MayExport("pr_open") {
		t.Errorf("%+v %v", p, err)
	}
	var none *Policy
	if none.MayExport("push") {
		t.Error("a repository without a policy allows a push")
	}
	for _, text := range []string{"export: {actions: [push, merge]}\n", "export: {actions: [\"*\"]}\n", "export: {actions: push}\n", "export: [push]\n", "export: {allow: [push]}\n"} {
		if _, err := ParsePolicy("remit.yaml", []byte(text)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
	_, err = Parse("task.yaml", []byte("task_id: x\nexport: {actions: [push]}\n"))
	var problems Problems
	unknown := func(p *reason.Error) bool { return p.Field == "export" && p.Code == reason.ContractUnknownKey }
	if !errors.As(err, &problems) || !slices.ContainsFunc(problems, unknown) {
		t.Errorf("a task file: %v", err)
	}
}
