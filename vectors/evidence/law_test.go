//test:plain-package It only computes: there is one goroutine.

// Package evidence_test holds the records that law writes to the schemas that
// proof publishes: neither wing may import the other's tests.
package evidence_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"remit/law/eligibility"
	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
)

const minimal = `
task_id: fix-add
title: Add adds
instructions: Make Add return the sum.
target_repository: calc
allowed_paths: [calc/**]
verification_commands: [go test ./...]
forbidden_actions: [push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, authority_mutation]
`

const full = minimal + `
issue: {number: 7, url: "https://example.com/7", source: "#7"}
base: main
authority_basis: local-operator
risk_class: high
forbidden_paths: [calc/internal/**]
protected_paths: [calc/golden/**]
allow_ops: [read, write, create, delete, rename, exec, mode_change, symlink]
allow_symlinks: true
allow_submodules: false
mutation_mode: copied-repo
approval_required: true
tests: protect
expect_diff: false
require_clean: false
budget: {max_budget_usd: 1.5, max_tokens: 1000, wall_seconds: 60}
limits: {cpus_milli: 1000, memory_mb: 512, pids: 64, disk_mb: 100, output_bytes: 1000000}
network: gateway
evidence_expectations: [test.log]
policy_bundle_id: team.default
`

// TestContractsObeyTheirSchema: what a run records as contract.json is what
// the schema lists, key by key.
func TestContractsObeyTheirSchema(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"minimal": minimal, "full": full, "first form": "schema: remit.contract.v1\n" + strings.TrimSpace(full) + "\nverify: {control: off}\n",
		"groups": strings.Replace(full, "[go test ./...]", "[[go build ./..., go test ./...], go vet]", 1) +
			"verify: {control: required, scheme: single, observe: all, require: [observed], extra_seconds: 0}\n",
	} {
		c, err := task.Parse("task.yaml", []byte(src))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, err := c.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		obeys(t, evidence.ContractFile, text)
		for _, engine := range []string{"fake", "command", "other"} {
			digest, err := c.Digest()
			if err != nil {
				t.Fatal(err)
			}
			decision, err := canon.Marshal(eligibility.Decide(eligibility.Request{TaskID: c.TaskID, ContractDigest: digest, PolicyBundleID: c.PolicyBundleID,
				RiskClass: c.RiskClass, MutationMode: c.MutationMode, ApprovalRequired: c.ApprovalRequired,
				Engine: eligibility.Engine{Name: engine, Registered: true, ModelStatus: eligibility.ModelNotRequired}}))
			if err != nil {
				t.Fatal(err)
			}
			obeys(t, evidence.EligibilityFile, decision)
		}
	}
}

// TestContractOfTheVectors: law reads the contract of a published session back.
func TestContractOfTheVectors(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("valid/*/" + evidence.ContractFile)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no contracts (%v): the test would prove nothing", err)
	}
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := task.ParseCanonical(path, src[:len(src)-1]); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// obeys runs the schema gate over one document and looks at its findings only.
func obeys(t *testing.T, name string, text []byte) {
	t.Helper()
	files := fstest.MapFS{name: &fstest.MapFile{Data: append(text, '\n')}}
	for _, f := range evidence.CheckSchemas(t.Context(), files) {
		if f.Path == name {
			t.Errorf("%s: %s\n%s", name, f, text)
		}
	}
}
