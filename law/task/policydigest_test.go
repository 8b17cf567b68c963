package task

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestPolicyDigest: the digest is of the rules, not of the file: how it is
// written changes nothing, and every rule that it states changes the digest.
func TestPolicyDigest(t *testing.T) {
	t.Parallel()
	digest := func(p *Policy) string {
		t.Helper()
		d, err := p.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	seen := map[string]string{digest(nil): "no policy"}
	add := func(what string, p *Policy) {
		if other, twice := seen[digest(p)]; twice {
			t.Errorf("%s has the digest of %s", what, other)
		}
		seen[digest(p)] = what
	}
	add("an empty policy", &Policy{})
	full := mustPolicy(t, fullPolicy)
	add("the full policy", full)
	lines := strings.Split(strings.TrimSuffix(fullPolicy, "\n"), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, " ") || line == "engines:" {
			continue
		}
		add("without "+line, mustPolicy(t, strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "\n")+"\n"))
	}
	add("an engine on", mustPolicy(t, strings.Replace(fullPolicy, "command: {enabled: false}", "command: {enabled: true}", 1)))
	add("no operation", &Policy{AllowOps: []Permission{}})
	add("signed records", mustPolicy(t, "records: {signed: true}\n"))
	add("a layer", mustPolicy(t, "environment: {prepare: [{ecosystem: npm}]}\n"))
	add("a layer of a directory", mustPolicy(t, "environment: {prepare: [{ecosystem: npm, dir: web}]}\n"))
	add("an image", mustPolicy(t, "environment: {image: \"a@sha256:"+strings.Repeat("1", 64)+"\"}\n"))
	add("another image", mustPolicy(t, "environment: {image: \"a@sha256:"+strings.Repeat("2", 64)+"\"}\n"))
	add("a variable", mustPolicy(t, "environment: {env: {NODE_ENV: test}}\n"))
	add("no provider", mustPolicy(t, "model: {providers: {}}\n"))
	add("one provider", mustPolicy(t, "model: {providers: {example: {class: local}}}\n"))
	again := mustPolicy(t, "# the same rules\n"+strings.Join(append(slices.Clone(lines[len(lines)-1:]), lines[:len(lines)-1]...), "\n")+"\n")
	if digest(again) != digest(full) {
		t.Error("the order of the keys and a comment change the digest")
	}
}

// TestPolicyCanonicalNamesKeys: the canonical form has the names of remit.yaml,
// for every field that a policy has.
func TestPolicyCanonicalNamesKeys(t *testing.T) {
	t.Parallel()
	text, err := mustPolicy(t, fullPolicy+"allow_symlinks: true\nallow_submodules: true\nmodel: {keep_bodies: true, providers: {example: {base_url: \"https://example.org/v1\"}}}\nlifecycle: {timeout_after_valid_patch: allow}\n").Canonical()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Builtin struct {
			Version   string
			Contract  struct{ Schema string }
			Protected []Protection `json:"protected_paths"`
		} `json:"built_in"`
		Policy map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Builtin.Version != BuiltinPolicyVersion || doc.Builtin.Contract.Schema != Schema || len(doc.Builtin.Protected) != len(protections) {
		t.Errorf("what holds without a file is %+v", doc.Builtin)
	}
	known := []string{"engines", "model", "records", "environment", "export"}
	for _, k := range ruleKeys(&Contract{}) {
		known = append(known, k.name)
	}
	for key := range doc.Policy {
		if !slices.Contains(known, key) {
			t.Errorf("%q is no key of remit.yaml", key)
		}
	}
	if string(doc.Policy["mutation_mode"]) != `"scoped-real-repo"` || !strings.Contains(string(doc.Policy["model"]), `"base_url":"https://example.org/v1"`) {
		t.Errorf("the values are %s", text)
	}
}
