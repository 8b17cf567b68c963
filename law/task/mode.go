package task

import (
	"fmt"
	"slices"
	"strings"
)

// MutationMode is how close to a real repository a run may come. The modes are
// ordered: compare them with <.
type MutationMode int

// The mutation modes, each wider than the one before.
const (
	ModeNone             MutationMode = iota // nothing may change
	CopiedFixture                            // a copy of a shipped fixture
	CopiedRepo                               // a copy of a local repository; the default
	SandboxRepo                              // a disposable repository
	OwnedNoncriticalRepo                     // an explicitly owned, low-risk repository
	ScopedRealRepo                           // a real repository, inside the allowed paths
)

var modeNames = [...]string{"none", "copied-fixture", "copied-repo", "sandbox-repo", "owned-noncritical-repo", "scoped-real-repo"}

// MutationModes returns all modes, narrowest first.
func MutationModes() []MutationMode {
	modes := make([]MutationMode, len(modeNames))
	for i := range modes {
		modes[i] = MutationMode(i)
	}
	return modes
}

// modeAliases are names that task files and flags of other harnesses have for
// our modes. They are read and never written: a canonical contract has our name.
var modeAliases = map[string]MutationMode{"candidate-default": ScopedRealRepo}

// ParseMutationMode reads the name of a mode as people write it, aliases included.
func ParseMutationMode(name string) (MutationMode, error) {
	if m, ok := modeAliases[name]; ok {
		return m, nil
	}
	return modeNamed(name)
}

func modeNamed(name string) (MutationMode, error) {
	if i := slices.Index(modeNames[:], name); i >= 0 {
		return MutationMode(i), nil
	}
	return ModeNone, fmt.Errorf("%q is not a mutation mode (one of %s)", name, strings.Join(modeNames[:], ", "))
}

// String returns the name.
func (m MutationMode) String() string {
	if !m.Valid() {
		return fmt.Sprintf("MutationMode(%d)", int(m))
	}
	return modeNames[m]
}

// Valid reports whether m is one of the modes.
func (m MutationMode) Valid() bool { return m >= 0 && int(m) < len(modeNames) }

// Exceeds reports whether m is wider than limit.
func (m MutationMode) Exceeds(limit MutationMode) bool { return m > limit }

// Delivers reports whether a verified change is put on a new branch of a
// repository; in the other modes nothing is written to one.
func (m MutationMode) Delivers() bool { return m.Exceeds(CopiedRepo) }

// MarshalText writes the name; an invalid mode is an error, never a number.
func (m MutationMode) MarshalText() ([]byte, error) {
	if !m.Valid() {
		return nil, fmt.Errorf("%d is not a mutation mode", int(m))
	}
	return []byte(modeNames[m]), nil
}

// UnmarshalText reads the name that MarshalText writes; records have no aliases.
func (m *MutationMode) UnmarshalText(text []byte) (err error) {
	*m, err = modeNamed(string(text))
	return err
}

// RiskClass is how much harm a wrong change could do.
type RiskClass string

// The risk classes, lowest first.
const (
	RiskLow      RiskClass = "low"
	RiskMedium   RiskClass = "medium"
	RiskHigh     RiskClass = "high"
	RiskCritical RiskClass = "critical"
)

// RiskClasses returns all classes, lowest first.
func RiskClasses() []RiskClass { return []RiskClass{RiskLow, RiskMedium, RiskHigh, RiskCritical} }

// Valid reports whether r is one of the classes.
func (r RiskClass) Valid() bool { return slices.Contains(RiskClasses(), r) }

// NeedsApproval reports whether a person must approve whatever the contract
// says. An unknown class does.
func (r RiskClass) NeedsApproval() bool { return r != RiskLow && r != RiskMedium }

// Exceeds reports whether r is riskier than limit; an unknown class is the
// riskiest.
func (r RiskClass) Exceeds(limit RiskClass) bool { return r.rank() > limit.rank() }

func (r RiskClass) rank() int {
	if i := slices.Index(RiskClasses(), r); i >= 0 {
		return i
	}
	return len(RiskClasses())
}

// TestsRule is what the agent may do to the tests that judge it.
type TestsRule string

// The rules for tests, strictest first.
const (
	TestsProtect TestsRule = "protect" // test files and runner configuration come from the base
	TestsExtend  TestsRule = "extend"  // tests may be added; those of the base keep their verdict or better; the default
	TestsFree    TestsRule = "free"    // recorded as such
)

// TestsRules returns all rules, strictest first.
func TestsRules() []TestsRule { return []TestsRule{TestsProtect, TestsExtend, TestsFree} }

// Network is the only route out of the sandbox.
type Network string

// The networks, narrowest first.
const (
	NetworkNone    Network = "none"
	NetworkGateway Network = "gateway" // the model gateway and nothing else
)

// Networks returns all networks, narrowest first.
func Networks() []Network { return []Network{NetworkNone, NetworkGateway} }

// Permission is something that an envelope's allow_ops lets a change do.
type Permission string

// The permissions of allow_ops.
const (
	MayRead       Permission = "read"        // reading the copy; a run cannot go without it, so it never decides a diff
	MayWrite      Permission = "write"       // change the content of a file that exists
	MayCreate     Permission = "create"      // add a file
	MayDelete     Permission = "delete"      // remove a file
	MayRename     Permission = "rename"      // move a file; needs create and delete as well
	MayExec       Permission = "exec"        // make a file executable, new or old
	MayModeChange Permission = "mode_change" // change the mode of a file that exists
	MaySymlink    Permission = "symlink"     // make or change a symlink, if allow_symlinks is set as well
)

// Permissions returns all permissions: the default of allow_ops.
func Permissions() []Permission {
	return []Permission{MayRead, MayWrite, MayCreate, MayDelete, MayRename, MayExec, MayModeChange, MaySymlink}
}
