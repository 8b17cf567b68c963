package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"remit/law/job"
	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// tellJournal takes entries of a run's journal while the run goes on.
func tellJournal(tx *store.Tx, r *request, body api.JournalReport) (answer, error) {
	report := jobs.JournalReport{SessionID: body.SessionID, Summary: documentOf(body.Summary)}
	for _, e := range body.Entries {
		report.Entries = append(report.Entries, jobs.ToldEntry{Seq: e.Seq, EntryHash: e.EntryHash, PrevHash: e.PrevHash, StepID: e.StepID, Name: e.Name,
			Status: journal.Status(e.Status), StartedAt: e.StartedAt, CompletedAt: e.CompletedAt, Inputs: documentOf(e.Inputs),
			Outputs: documentOf(e.Outputs), Cut: api.Value(e.Cut)})
	}
	run, err := jobs.TellJournal(tx, r.caller.Principal, r.PathValue("run_id"), report)
	if err != nil {
		return answer{}, err
	}
	return answer{value: journalCursor(run)}, nil
}

func journalCursor(run jobs.Run) api.JournalCursor {
	return api.JournalCursor{Entries: run.JournalEntries, Head: api.Optional(run.JournalHead)}
}

// documentOf is a document of a request, nil when there is none.
func documentOf(d *json.RawMessage) json.RawMessage {
	if d == nil {
		return nil
	}
	return *d
}

// derive reads the sealed bundle of a run, and compares the journal that the client sent
// with it. It only reads: nothing of the bundle is ever run. The result is nil for an
// artifact that is no bundle.
func (s *Server) derive(ctx context.Context, r *request, ask jobs.RunArtifactRequest) (*jobs.Derived, error) {
	if _, ok := job.BundleEntries(ask.Name); !ok {
		return nil, nil
	}
	_, entries, err := s.bundleJournal(ctx, ask.SHA256)
	if err != nil && reason.CodeOf(err) == "" {
		return nil, err
	}
	var d jobs.Derived
	if err == nil {
		d.Summary, err = evidence.SummaryOf(entries)
	}
	if err != nil {
		code := reason.CodeOf(err)
		d.Findings = append(d.Findings, jobs.Finding{Code: code,
			Message: evidence.CutText(fmt.Sprintf("the journal of the bundle cannot be read: %v", err), maxReason)})
	}
	var differences []string
	err = s.opt.Store.View(ctx, func(tx *store.Tx) error {
		run, err := jobs.FindRun(tx, r.caller.Principal, r.PathValue("run_id"))
		if err != nil {
			return err
		}
		d.JournalHead = run.JournalHead
		if d.Summary == nil || run.JournalEntries == 0 || run.ForgottenAt > 0 {
			return nil
		}
		for after := int64(0); ; {
			events, err := tx.Events(authority.RunStream(run.ID), after, documentPage)
			if err != nil || len(events) == 0 {
				return err
			}
			for _, e := range events {
				if text := jobs.CompareJournal(e, entries); text != "" {
					differences = append(differences, text)
				}
				after = e.Seq
			}
		}
	})
	d.Findings = append(d.Findings, jobs.JournalFindings(differences)...)
	return &d, err
}

// maxBundleJournal bounds the journal that is read out of a bundle, in bytes.
const maxBundleJournal = 32 << 20

// bundleJournal reads the journal in a bundle: its text, and its entries if their chain holds.
func (s *Server) bundleJournal(ctx context.Context, digest string) ([]byte, []journal.Entry, error) {
	content, size, err := s.opt.Blobs.OpenAt(ctx, digest)
	if err != nil {
		return nil, nil, err
	}
	text, err := bundle.ReadMember(ctx, content, size, evidence.JournalFile, maxBundleJournal)
	if err := errors.Join(err, content.Close()); err != nil {
		return nil, nil, err
	}
	log, err := journal.Read(bytes.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	if log.TornBytes > 0 {
		return nil, nil, reason.Errorf(reason.JournalTorn, "its last line is incomplete")
	}
	return text, log.Entries, nil
}
