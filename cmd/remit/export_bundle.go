package main

import (
	"context"
	"io"
	"slices"

	"remit/forge"
	"remit/nexus/panel"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/session"
)

// bundleExports are the forms that follow from the bundle alone: they need no
// repository, no credential and no word to anybody. The values are what writes each.
var bundleExports = map[string]func(w io.Writer, dir string) error{
	"zip":   func(w io.Writer, dir string) error { return bundle.WriteZip(w, dir) },
	"patch": forge.Patch, "junit": forge.JUnit, "sarif": forge.SARIF, "otlp": forge.OTLP, "atif": forge.ATIF, "swebench": forge.SWEBenchPrediction,
}

// suffixOf is how the file of such a form is called.
func suffixOf(to string) string {
	i := slices.IndexFunc(panel.ExportForms, func(f panel.ExportForm) bool { return f.To == to })
	return panel.ExportForms[i].Suffix
}

// exportable refuses to hand out, as a change, what did not pass or was rejected.
func exportable(s session.Session, to string, rep *evidence.Report) error {
	if panel.HandsOutChange(to) && rep.Status != evidence.StatusPass {
		return reason.Errorf(reason.NotAcceptable, "session %s ended as %s", s.ID, rep.Status).
			WithHint("its change is not verified; --force exports it all the same")
	}
	if (to == "patch" || to == "branch") && rep.OperatorOutcome == session.Rejected {
		return reason.Errorf(reason.NotAcceptable, "session %s was rejected", s.ID).
			WithHint("its change was rejected (`remit show %s`); --force exports it all the same", s.ID)
	}
	return nil
}

// Export implements panel.Home. What is handed out carries our word for it, so
// nothing is that an audit would not let through.
func (h *homeSessions) Export(ctx context.Context, id, to string, w io.Writer) error {
	write, ok := bundleExports[to]
	if !ok {
		return reason.Errorf(reason.NotFound, "%.40q is no form that follows from a bundle alone", to).
			WithHint("`remit export %s --to %s` may know it", id, to)
	}
	h.mu.Lock()
	s, _, err := h.find(id)
	h.mu.Unlock()
	if err != nil {
		return err
	}
	st, err := finished(s, "no bundle to export")
	if err != nil {
		return err
	}
	if err := exportable(s, to, st.Report); err != nil {
		return err
	}
	_, closeFiles, err := auditedFiles(ctx, s.Dir)
	if err != nil {
		return err
	}
	defer closeFiles()
	return write(w, s.Dir)
}
