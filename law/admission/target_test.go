package admission

import (
	"slices"
	"strings"
	"testing"

	"remit/law/task"
	"remit/proof/reason"
)

const repository = "/home/owner/tool"

// admittedTarget is a decision that admits the repository.
func admittedTarget() TargetDecision {
	d := Template()
	d.Ruling = ruling(Admitted)
	d.ReviewTrigger = "another owner"
	d.Path, d.Owner, d.OwnershipEvidence, d.Risk, d.Rationale = repository, "me", "I made it", LowRiskNoncritical, "nothing runs it"
	d.AllowedPaths, d.ForbiddenPaths, d.ApprovalTimestamp = []string{"src/**", "README.md"}, []string{".env", ".env.*", "src/keys/"}, "2026-02-03"
	return d
}

func target(t *testing.T, previous *Target, d TargetDecision) *Target {
	t.Helper()
	rec, err := NextTarget(previous, d)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// lacking is a record that is whole but for one field, as a hand could make it.
func lacking(t *testing.T, change func(*TargetDecision)) *Target {
	t.Helper()
	d := admittedTarget()
	change(&d)
	d.Status = statusOf(d.Decision)
	rec := &Target{Schema: TargetSchema, TargetDecision: d}
	var err error
	if rec.History, err = follow(&rec.TargetDecision, nil, nil); err != nil {
		t.Fatal(err)
	}
	return rec
}

func contractFor(allowed, forbidden []string) *task.Contract {
	return &task.Contract{AllowedPaths: allowed, ForbiddenPaths: forbidden, ForbiddenActions: task.DefaultForbiddenActions()}
}

// TestTargetGates: each required gate blocks by itself, with its own code, when the record is read and when
// an admission is made, and no detail names the repository.
func TestTargetGates(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		gate   string
		change func(*TargetDecision)
		code   reason.Code
	}{
		{"admission status", func(d *TargetDecision) { d.Decision = NotDecided }, reason.TargetNotAdmitted},
		{"rejected", func(d *TargetDecision) { d.Decision = Rejected }, reason.TargetNotAdmitted},
		{"owner", func(d *TargetDecision) { d.Owner = " " }, reason.TargetUnowned},
		{"ownership evidence", func(d *TargetDecision) { d.OwnershipEvidence = "" }, reason.TargetUnowned},
		{"risk classification", func(d *TargetDecision) { d.Risk = "low_risk" }, reason.TargetCritical},
		{"risk classification is missing", func(d *TargetDecision) { d.Risk = "" }, reason.TargetCritical},
		{"noncritical rationale", func(d *TargetDecision) { d.Rationale = "" }, reason.TargetCritical},
		{"allowed paths", func(d *TargetDecision) { d.AllowedPaths = []string{} }, reason.TargetPathsMissing},
		{"forbidden actions", func(d *TargetDecision) { d.ForbiddenActions = d.ForbiddenActions[1:] }, reason.TargetActionOpen},
		{"no forbidden actions", func(d *TargetDecision) { d.ForbiddenActions = []string{} }, reason.TargetActionOpen},
		{"approval source", func(d *TargetDecision) { d.By = "" }, reason.TargetApprovalMissing},
		{"approval timestamp", func(d *TargetDecision) { d.ApprovalTimestamp = "" }, reason.TargetApprovalMissing},
		{"operator outcome", func(d *TargetDecision) { d.OutcomeRequired = false }, reason.TargetOutcomeOptional},
		{"review trigger", func(d *TargetDecision) { d.ReviewTrigger = "" }, reason.TargetReviewMissing},
	} {
		t.Run(test.gate, func(t *testing.T) {
			t.Parallel()
			rec := lacking(t, test.change)
			res := rec.Admits(repository, nil)
			if res.Code != test.code || res.Admitted() || res.Detail == "" || strings.Contains(res.Detail, repository) {
				t.Errorf("%+v", res)
			}
			home := t.TempDir()
			put(t, home, TargetFile(repository), text(t, rec), 0o600)
			if res, _ := below(home).TargetResult(repository, nil); res.Code != test.code || strings.Contains(res.Detail, repository) {
				t.Errorf("read: %+v", res)
			}
			d := admittedTarget()
			if test.change(&d); d.Decision != Admitted {
				return // such a record may be written: it admits nothing
			}
			if _, err := NextTarget(nil, d); reason.CodeOf(err) != test.code {
				t.Errorf("an admission is made: %v", err)
			}
		})
	}
	t.Run("record", func(t *testing.T) {
		t.Parallel()
		home := t.TempDir()
		if res, _ := below(home).TargetResult(repository, nil); res.Code != reason.TargetRecordMissing || strings.Contains(res.Detail, repository) {
			t.Errorf("%+v", res)
		}
		put(t, home, TargetFile(repository), text(t, target(t, nil, admittedTarget())), 0o600)
		if res, rec := below(home).TargetResult(repository, nil); !res.Admitted() || rec == nil {
			t.Errorf("the control is not admitted: %+v", res)
		}
		put(t, home, TargetFile("/home/owner/other"), text(t, target(t, nil, admittedTarget())), 0o600)
		if res, _ := below(home).TargetResult("/home/owner/other", nil); res.Code != reason.TargetRecordMissing || !res.Stale {
			t.Errorf("the record of another: %+v", res)
		}
	})
}

// TestTemplateAdmitsNothing: what a person begins with is the skeleton of the record, and admits nothing.
func TestTemplateAdmitsNothing(t *testing.T) {
	t.Parallel()
	d := Template()
	if d.Status != StatusNotAdmitted || !d.OutcomeRequired || !slices.Equal(d.ForbiddenActions, task.DefaultForbiddenActions()) || len(d.Gates()) == 0 {
		t.Errorf("%+v", d)
	}
	d.Ruling, d.Path = ruling(NotDecided), repository
	d.ReviewTrigger, d.By = "", ""
	if res := target(t, nil, d).Admits(repository, nil); res.Code != reason.TargetNotAdmitted {
		t.Errorf("%+v", res)
	}
}

// TestContractInsideTarget: the contract lies inside the paths and actions of the record.
func TestContractInsideTarget(t *testing.T) {
	t.Parallel()
	rec := target(t, nil, admittedTarget())
	fewer := contractFor([]string{"README.md"}, nil)
	fewer.ForbiddenActions = fewer.ForbiddenActions[1:]
	for name, test := range map[string]struct {
		c       *task.Contract
		outside string // "" for inside
	}{
		"one file":                       {contractFor([]string{"README.md"}, nil), ""},
		"below, and the rest is denied":  {contractFor([]string{"src/api/**"}, nil), ""},
		"the whole tree with its denial": {contractFor([]string{"src/**"}, []string{"src/keys/"}), ""},
		"the whole tree without":         {contractFor([]string{"src/**"}, nil), `forbids "src/keys/"`},
		"in another case":                {contractFor([]string{"src/KEYS/**"}, nil), `forbids "src/keys/"`},
		"everything":                     {contractFor([]string{"**"}, []string{".env", ".env.*", "src/keys/"}), `"**" is in none`},
		"another file":                   {contractFor([]string{"go.mod"}, nil), `"go.mod" is in none`},
		"a neighbour":                    {contractFor([]string{"src2/**"}, nil), "is in none"},
		"an action":                      {fewer, "forbids push"},
	} {
		res := rec.Admits(repository, test.c)
		if test.outside == "" {
			if !res.Admitted() {
				t.Errorf("%s: %+v", name, res)
			}
		} else if res.Code != reason.TargetContractOutside || !strings.Contains(res.Detail, test.outside) {
			t.Errorf("%s: %+v", name, res)
		}
	}
}

func TestBadTarget(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*TargetDecision){
		"a relative path":  func(d *TargetDecision) { d.Path = "tool" },
		"a path with dots": func(d *TargetDecision) { d.Path = "/home/owner/../owner/tool" },
		"everything":       func(d *TargetDecision) { d.Path = "/" },
		"a glob outside":   func(d *TargetDecision) { d.AllowedPaths = []string{"../x"} },
		"an absolute glob": func(d *TargetDecision) { d.ForbiddenPaths = []string{"/etc"} },
		"invisible text":   func(d *TargetDecision) { d.Owner = "me\u202e" },
	} {
		d := admittedTarget()
		change(&d)
		if _, err := NextTarget(nil, d); reason.CodeOf(err) != reason.InvalidAdmission {
			t.Errorf("%s: %v", name, err)
		}
	}
}
