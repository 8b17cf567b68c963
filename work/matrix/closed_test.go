package matrix

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"remit/law/ladder"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/engine/faulty"
	"remit/work/harness"
)

// TestFullDiskUnderTheJournal takes the disk away from everything, the journal
// too. No evidence can be completed then; the run says so with the row's code,
// and what is left claims nothing.
func TestFullDiskUnderTheJournal(t *testing.T) {
	t.Parallel()
	opt := opened(t, "command")
	fx, err := newFixture(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fx.contract.id = "full"
	s := &setup{fixture: fx, fault: faulty.Fault{Name: "fills-the-disk", After: "head -c 2000000 /dev/zero | tr '\\0' x"}}
	err = faulty.PrivateMounts(func() error {
		sessions := fx.home().Sessions()
		if err := faulty.FullDisk(sessions, 128<<10); err != nil {
			return err
		}
		defer func() { _ = faulty.Unmount(sessions) }()
		runErr := opt.run(t.Context(), s)
		if reason.CodeOf(runErr) != reason.ArtifactWriteFailure {
			t.Errorf("the run ended with %v", runErr)
		}
		dir, err := fx.onlySession()
		if err != nil {
			return err
		}
		if _, err := os.Lstat(filepath.Join(dir, evidence.ManifestFile)); err == nil {
			t.Error("the session is sealed")
		}
		log, err := journal.ReadFile(filepath.Join(dir, evidence.JournalFile))
		if err != nil {
			return err
		}
		for _, e := range log.Entries {
			if e.Name == evidence.StepRunCompleted {
				t.Errorf("the journal has a verdict: %s", e.Outputs)
			}
		}
		return nil
	})
	if errors.Is(err, faulty.ErrNoMount) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// impostor has every method of the fault-injecting engine, and is not it.
type impostor struct{ *faulty.Engine }

// TestOnlyTheWrapperTouchesTheJournal keeps other engines from the journal:
// they get no chance to drop a step, whatever methods they have.
func TestOnlyTheWrapperTouchesTheJournal(t *testing.T) {
	t.Parallel()
	opt := opened(t, "command")
	fx, err := newFixture(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fx.contract.id = "impostor"
	contract, err := fx.contract.parse()
	if err != nil {
		t.Fatal(err)
	}
	inner := fx.builtIn(opt.Engine, opt.Binary)
	out, err := harness.Run(t.Context(), harness.Request{Home: fx.home(), Repo: fx.repo(), Contract: contract, Sandbox: opt.Sandbox, Repeat: 1,
		Admission: harness.Admission{ProvenMode: task.CopiedRepo}, Engine: impostor{&faulty.Engine{Inner: inner, Fault: faulty.DropStep(evidence.StepPlan)}}})
	if err != nil {
		t.Fatal(err)
	}
	if out.Report.Status != evidence.StatusPass {
		t.Errorf("%s: %v", out.Report.Status, out.Report.Blockers)
	}
}

// TestDenialIsTerminal denies a contract that asked for no approval, and one
// that another person has approved.
func TestDenialIsTerminal(t *testing.T) {
	t.Parallel()
	opt := opened(t, "command")
	for name, approver := range map[string]string{"not asked for": "", "against a grant": approver} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fx, err := newFixture(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			fx.contract.id = "denied"
			s := &setup{fixture: fx, approver: approver, denier: denier}
			if err := opt.run(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			row, _ := ladder.RowNamed(ladder.ApprovalDenied)
			res := newCaseResult(row, row.Cases[0])
			ended{setup: s}.judge(t.Context(), scenario{shows: showsDenial}, res.Expected, &res)
			for _, c := range res.Checks {
				if !c.Held {
					t.Errorf("%s: %s", c.Name, c.Detail)
				}
			}
		})
	}
}

// TestReserveIsGivenBack looks at what a sealed journal takes of the disk: the
// space that protected it while the run went on is free again.
func TestReserveIsGivenBack(t *testing.T) {
	t.Parallel()
	dir, err := ran(t, opened(t, "command")).onlySession()
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, evidence.JournalFile), &st); err != nil {
		t.Fatal(err)
	}
	if taken := st.Blocks * 512; taken > st.Size+64<<10 {
		t.Errorf("the journal has %d bytes and takes %d", st.Size, taken)
	}
}

// TestSmallDiskHasRoomForARun: the disk of the cases is full because of their
// fault. What a run itself keeps, and what it reserves, takes far less.
func TestSmallDiskHasRoomForARun(t *testing.T) {
	t.Parallel()
	dir, err := ran(t, opened(t, "command")).onlySession()
	if err != nil {
		t.Fatal(err)
	}
	var taken int64
	err = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(name, &st)
		}
		taken += st.Blocks * 512
		return err
	})
	if err != nil || taken == 0 || 4*taken > smallDisk {
		t.Errorf("a run takes %d bytes, and the small disk has %d: %v", taken, smallDisk, err)
	}
}
