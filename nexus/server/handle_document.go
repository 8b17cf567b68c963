package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/proof/canon"
	"remit/proof/reason"
)

func documentRoutes() []route {
	return []route{
		{Operation: api.GetRunReplay.Operation, special: (*Server).getRunReplay},
		{Operation: api.GetRunReceipt.Operation, special: (*Server).getRunReceipt},
		{Operation: api.GetRunBundle.Operation, special: (*Server).getRunBundle},
		{Operation: api.GetRunBundleJournal.Operation, special: (*Server).getRunBundleJournal},
	}
}

// The documents of a run are made from its log when they are asked for, so they
// say what the log says.

const (
	// documentPage bounds what is held of a log at once: an event has at most a
	// mebibyte.
	documentPage = 50
	// maxReceiptDocument bounds the receipt, which is one piece.
	maxReceiptDocument = 32 << 20

	receiptSchema = "remit.run_receipt.v1"
	eventPayment  = "payment"
)

// logOf is the part of a run's log that was written when the run was read.
type logOf struct {
	run  jobs.Run
	head int64
}

func findLog(tx *store.Tx, r *request) (l logOf, err error) {
	if l.run, err = jobs.FindRun(tx, r.caller.Principal, r.PathValue("run_id")); err != nil {
		return l, err
	}
	if err = remembered(l.run); err != nil {
		return l, err
	}
	l.head, _, err = tx.Head(authority.RunStream(l.run.ID))
	return l, err
}

// page reads the next events. What is in the store is not believed: an event
// that is missing, or is not what its digest says, ends the document.
func (l logOf) page(tx *store.Tx, after int64) ([]store.Event, error) {
	events, err := tx.Events(authority.RunStream(l.run.ID), after, int(min(documentPage, l.head-after)))
	if err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("the log of run %s ends at %d, its head is %d", l.run.ID, after, l.head)
	}
	for i, e := range events {
		if e.Seq != after+int64(i)+1 || canon.Digest(e.Payload) != e.PayloadSHA256 {
			return nil, fmt.Errorf("the log of run %s is damaged at %d", l.run.ID, after+int64(i)+1)
		}
	}
	return events, nil
}

// getRunReplay sends the log as REPLAY.jsonl. A log has no bound, so it is sent
// while it is read: each page in a look of its own, since what was written once
// never changes.
func (s *Server) getRunReplay(w http.ResponseWriter, r *request) error {
	var l logOf
	err := s.opt.Store.View(r.Context(), func(tx *store.Tx) (err error) {
		l, err = findLog(tx, r)
		return err
	})
	if err != nil {
		return err
	}
	if err := extendDeadlines(w, artifactTimeout); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	out := bufio.NewWriterSize(w, 64<<10)
	if err := errors.Join(s.replay(r.Context(), out, l), out.Flush()); err != nil {
		if r.Context().Err() == nil {
			s.opt.Log.Error("replay", "request_id", r.id, "run_id", l.run.ID, "error", err)
		}
		// The answer has begun: cut off it is no answer, ended it would be a wrong one.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// replay writes the lines, each in canonical form.
func (s *Server) replay(ctx context.Context, out io.Writer, l logOf) error {
	err := line(out, map[string]any{"event": "ReplayHeader", "replay_version": 1, "producer": "remit/" + s.opt.Version,
		"created_at": api.TimeOf(l.run.CreatedAt)})
	for after := int64(0); err == nil && after < l.head; {
		var events []store.Event
		err = s.opt.Store.View(ctx, func(tx *store.Tx) (err error) {
			events, err = l.page(tx, after)
			return err
		})
		for _, e := range events {
			err = errors.Join(err, line(out, map[string]any{
				"event": "RuntimeEvent", "t": api.TimeOf(e.RecordedAt), "session_id": l.run.ID, "seq": e.Seq, "runtime_event_type": e.Type,
				"payload": e.Payload, "payload_hash": e.PayloadSHA256, "idempotency_key": api.Optional(e.IdempotencyKey),
			}))
			after = e.Seq
		}
	}
	return err
}

func line(out io.Writer, v any) error {
	text, err := canon.Marshal(v)
	if err != nil {
		return err
	}
	_, err = out.Write(append(text, '\n'))
	return err
}

// getRunReceipt sends all receipts and payments of a run that has ended.
func (s *Server) getRunReceipt(w http.ResponseWriter, r *request) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.opt.Timeouts.Command)
	defer cancel()
	out := reply{status: http.StatusOK, contentType: "application/json"}
	err := s.opt.Store.View(ctx, func(tx *store.Tx) error {
		l, err := findLog(tx, r)
		if err != nil {
			return err
		}
		if !jobs.RunState(l.run.State).Final() {
			return reason.Errorf(reason.RunOpen, "run %s is %s: what it comes to is known when it has ended", l.run.ID, l.run.State)
		}
		body, digest, err := l.receipt(tx, maxReceiptDocument)
		out.body, out.etag = body, `"`+digest+`"`
		return err
	})
	if err != nil {
		return err
	}
	if r.Header.Get("If-None-Match") == out.etag {
		out = reply{status: http.StatusNotModified, etag: out.etag}
	}
	s.write(w, r, out)
	return nil
}

// receipt makes the document, and its digest: that of the canonical document
// without the member that holds it. It has at most so many bytes of payload.
func (l logOf) receipt(tx *store.Tx, most int) (body []byte, digest string, err error) {
	receipts, payments := []map[string]any{}, []map[string]any{}
	size := 0
	for after := int64(0); after < l.head; {
		events, err := l.page(tx, after)
		if err != nil {
			return nil, "", err
		}
		for _, e := range events {
			after = e.Seq
			rc, isReceipt := authority.ReadReceipt(e)
			entry := map[string]any{"seq": e.Seq, "idempotency_key": e.IdempotencyKey, "recorded_at": api.TimeOf(e.RecordedAt)}
			switch {
			case isReceipt && !rc.Sealed():
				return nil, "", fmt.Errorf("receipt %d of run %s is not what its digest says", e.Seq, l.run.ID)
			case isReceipt:
				entry["receipt_type"], entry["payload"], entry["principal"], entry["receipt_sha256"] = rc.Type, rc.Payload, rc.Principal, rc.SHA256
				receipts = append(receipts, entry)
			case e.Type == eventPayment:
				entry["payload"], entry["payload_sha256"] = e.Payload, e.PayloadSHA256
				payments = append(payments, entry)
			default:
				continue
			}
			if size += len(e.Payload); size > most {
				return nil, "", reason.Errorf(reason.RequestTooLarge, "the receipts of run %s are more than %d bytes", l.run.ID, most).
					WithHint("page through /v1/runs/%s/receipts", l.run.ID)
			}
		}
	}
	doc := map[string]any{
		"schema": receiptSchema, "run_id": l.run.ID, "owner": l.run.Owner, "status": l.run.State, "repo_ref": l.run.RepoRef,
		"issue_ref": l.run.IssueRef, "policy_bundle_id": l.run.PolicyBundleID, "created_at": api.TimeOf(l.run.CreatedAt),
		"finished_at": api.TimeOf(l.run.FinishedAt), "last_seq": l.head, "receipts": receipts, "payments": payments,
	}
	if digest, err = canon.DigestOf(doc); err != nil {
		return nil, "", err
	}
	doc["canonical_json_sha256"] = digest
	body, err = canon.Marshal(doc)
	return body, digest, err
}

// getRunBundle sends the bundle that the run's owner has stored, as sealed last.
func (s *Server) getRunBundle(w http.ResponseWriter, r *request) error {
	bundle, err := s.findBundle(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.zip"`, bundle.RunID))
	return s.sendBlob(w, r, bundle.SHA256)
}

func (s *Server) findBundle(r *request) (found store.RunArtifactRow, err error) {
	err = s.opt.Store.View(r.Context(), func(tx *store.Tx) (err error) {
		found, err = jobs.FindRunBundle(tx, r.caller.Principal, r.PathValue("run_id"))
		return err
	})
	return found, err
}

// getRunBundleJournal sends the journal in the bundle, if its chain holds.
func (s *Server) getRunBundleJournal(w http.ResponseWriter, r *request) error {
	found, err := s.findBundle(r)
	if err != nil {
		return err
	}
	text, _, err := s.bundleJournal(r.Context(), found.SHA256)
	switch reason.CodeOf(err) {
	case "", reason.StoreUnavailable, reason.NotFound:
	default:
		err = reason.Errorf(reason.Conflict, "the journal in the bundle cannot be read: %w", err).
			WithHint("take the bundle and look at it with `remit audit ZIP`")
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.journal.jsonl"`, found.RunID))
	_, err = w.Write(text)
	return err
}
