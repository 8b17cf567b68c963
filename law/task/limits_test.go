package task

import (
	"bytes"
	"testing"

	"remit/proof/reason"
)

// TestChangeCap: the caps on a change have a default, can be lowered by the
// contract and by the policy, whichever says less, and never be raised.
func TestChangeCap(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	tests := []struct {
		name             string
		contract, policy Limits
		paths            int
		bytes            int64
	}{
		{"default", Limits{}, Limits{}, MaxChangedPaths, MaxPatchMB * mb},
		{"contract", Limits{ChangedPaths: 5, PatchMB: 2}, Limits{}, 5, 2 * mb},
		{"policy", Limits{}, Limits{ChangedPaths: 6, PatchMB: 3}, 6, 3 * mb},
		{"the policy says less", Limits{ChangedPaths: 9, PatchMB: 9}, Limits{ChangedPaths: 6, PatchMB: 3}, 6, 3 * mb},
		{"the contract says less", Limits{ChangedPaths: 5, PatchMB: 2}, Limits{ChangedPaths: 6, PatchMB: 3}, 5, 2 * mb},
		{"too much, unchecked", Limits{ChangedPaths: MaxChangedPaths + 1, PatchMB: MaxPatchMB + 1}, Limits{}, MaxChangedPaths, MaxPatchMB * mb},
	}
	for _, test := range tests {
		limits := Limits{ChangedPaths: lowerStated(test.contract.ChangedPaths, test.policy.ChangedPaths), PatchMB: lowerStated(test.contract.PatchMB, test.policy.PatchMB)}
		if paths, size := limits.ChangeCap(); paths != test.paths || size != test.bytes {
			t.Errorf("%s: %d, %d", test.name, paths, size)
		}
	}
	c, err := FromIssue([]byte("# T\n"), "test", &Policy{AllowedPaths: []string{"**"}, Limits: Limits{ChangedPaths: 7}})
	if err != nil || c.Limits.ChangedPaths != 7 {
		t.Fatalf("%+v, %v", c, err)
	}
	if c, err = (&Policy{Limits: Limits{ChangedPaths: 3, PatchMB: 4}}).Apply(c); err != nil || c.Limits.ChangedPaths != 3 || c.Limits.PatchMB != 4 {
		t.Errorf("%+v, %v", c, err)
	}
	raw, err := c.Canonical()
	if err != nil || !bytes.Contains(raw, []byte(`"changed_paths":3`)) {
		t.Errorf("%s, %v", raw, err)
	}
	if again, err := ParseCanonical("contract.json", raw); err != nil || again.Limits != c.Limits {
		t.Errorf("%+v, %v", again, err)
	}
	if c.Limits.ChangedPaths = MaxChangedPaths + 1; reason.CodeOf(c.Validate()) != reason.ContractValue {
		t.Errorf("%v", c.Validate())
	}
}
