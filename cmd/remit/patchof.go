package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine/fake"
	"remit/work/harness"
)

// takeChange has a run take the change of an earlier session in the place of an
// engine: its patch, under its contract, from its base, in its repository. It
// is for a good change behind an end that let no run pass. Nothing of the
// earlier verdict counts: the patch is applied and verified like any other.
func (f *runFlags) takeChange(cmd *cobra.Command, home harness.Home, args []string) error {
	if f.task != "" || f.issue != "" || f.fakePatch != "" || f.base != "" || len(args) > 0 || f.engine != "" && f.engine != fake.Name {
		return usagef("--patch-of takes task, base and change from the session, and no engine, --task, --issue, --base, --fake-patch or command")
	}
	s, err := home.Find(f.patchOf)
	if err != nil {
		return err
	}
	st, err := s.Inspect()
	if err != nil {
		return err
	}
	if st.Phase != harness.Sealed {
		return reason.Errorf(reason.JournalUnfinished, "session %s is %s: it has no change yet", s.ID, st.Phase).
			WithHint("`remit resume %s` brings it to its end first", s.ID)
	}
	patch := filepath.Join(s.Dir, evidence.PatchFile)
	if info, err := os.Stat(patch); err != nil || info.Size() == 0 {
		return reason.Errorf(reason.NoDiff, "session %s has no change that could be taken", s.ID).WithHint("start the task again with an engine")
	}
	local, err := home.LoadLocal(s.ID)
	if err != nil {
		return err
	}
	if local.Contract == nil {
		return reason.Errorf(reason.ContractUnreadable, "the contract of session %s is not on this machine", s.ID).
			WithHint("run its task with --engine fake --fake-patch %s", patch)
	}
	if f.given, err = task.ParseCanonical(evidence.ContractFile, local.Contract); err != nil {
		return err
	}
	var opened evidence.RunOpened
	if err := json.Unmarshal(st.Log.Entries[0].Inputs, &opened); err != nil {
		return fmt.Errorf("reading the first journal entry: %w", err)
	}
	f.given.Dir, f.base, f.fakePatch = local.TaskDir, opened.BaselineCommit, patch
	if !cmd.Flags().Changed("repo") {
		f.repo = local.Repo
	}
	return nil
}
