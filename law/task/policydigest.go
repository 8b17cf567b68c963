package task

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"remit/proof/canon"
)

// BuiltinPolicyVersion changes when the rules that hold without a policy file
// change in a way that the default contract and the protected paths, which are
// digested with it, do not show.
const BuiltinPolicyVersion = "1"

// Canonical returns the policy as it is applied, as canonical JSON:
//
//	{"built_in": {"version", "contract", "protected_paths"}, "policy": {…}}
//
// built_in is what holds without a file: the contract of a task that states
// nothing and the protection that no contract can take away. policy has every key
// that the file states, under the name that it has there, or is null without a
// file. Policies with the same rules have the same bytes, however their files
// are written; a nil policy has bytes too.
func (p *Policy) Canonical() ([]byte, error) {
	var none *Policy
	defaults, err := none.contract().Canonical()
	if err != nil {
		return nil, fmt.Errorf("encoding the default contract: %w", err)
	}
	builtin := map[string]any{"version": BuiltinPolicyVersion, "contract": json.RawMessage(defaults), "protected_paths": ProtectedPaths()}
	doc := map[string]any{"built_in": builtin, "policy": nil}
	if p != nil {
		doc["policy"] = p.stated()
	}
	return canon.Marshal(doc)
}

// Digest returns the digest of the canonical form: policy_sha256 of a run.
func (p *Policy) Digest() (string, error) {
	b, err := p.Canonical()
	if err != nil {
		return "", err
	}
	return canon.Digest(b), nil
}

// stated are the values of the policy that are not zero: a zero value is one
// that the file does not state, or that changes nothing. It goes through the
// fields of the type, so that a rule which is added to it is digested too.
func (p *Policy) stated() map[string]any {
	out := map[string]any{}
	fields := reflect.ValueOf(*p)
	for i := range fields.NumField() {
		if f := fields.Field(i); !f.IsZero() {
			out[keyOfField(fields.Type().Field(i).Name)] = f.Interface()
		}
	}
	return out
}

// keyOfField is the key of the policy file that a field is named for:
// policy_bundle_id for PolicyBundleID.
func keyOfField(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, c := range runes {
		begins := i > 0 && unicode.IsUpper(c) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if begins {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
