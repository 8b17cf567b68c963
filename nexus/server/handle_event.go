package server

import (
	"strconv"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/lanes"
	"remit/nexus/store"
)

func listEvents(tx *store.Tx, r *request) (answer, error) {
	events, p, head, err := eventsOf(tx, r)
	if err != nil {
		return answer{}, err
	}
	out := api.EventPage{Items: []api.Event{}, HeadSeq: head, NextCursor: p.next(len(events), lastSeq(events))}
	for _, e := range events {
		out.Items = append(out.Items, lanes.EventOf(e))
	}
	return answer{value: out}, nil
}

// listReceipts pages through the log; a page holds the receipts among its events.
func listReceipts(tx *store.Tx, r *request) (answer, error) {
	events, p, _, err := eventsOf(tx, r)
	if err != nil {
		return answer{}, err
	}
	out := api.ReceiptPage{Items: []api.Receipt{}, NextCursor: p.next(len(events), lastSeq(events))}
	for _, e := range events {
		if rc, ok := authority.ReadReceipt(e); ok {
			out.Items = append(out.Items, api.Receipt{Seq: e.Seq, ReceiptType: rc.Type, Payload: rc.Payload, Principal: rc.Principal,
				IdempotencyKey: rc.Key, RecordedAt: api.TimeOf(e.RecordedAt), ReceiptSha256: rc.SHA256})
		}
	}
	return answer{value: out}, nil
}

func eventsOf(tx *store.Tx, r *request) (events []store.Event, p page, head int64, err error) {
	if p, err = pageOf(r); err != nil {
		return nil, p, 0, err
	}
	after, err := p.seq()
	if err != nil {
		return nil, p, 0, err
	}
	run, err := jobs.FindRun(tx, r.caller.Principal, r.PathValue("run_id"))
	if err != nil {
		return nil, p, 0, err
	}
	if err := remembered(run); err != nil {
		return nil, p, 0, err
	}
	stream := authority.RunStream(run.ID)
	if head, _, err = tx.Head(stream); err != nil {
		return nil, p, 0, err
	}
	events, err = tx.Events(stream, after, p.limit)
	return events, p, head, err
}

func lastSeq(events []store.Event) func() string {
	return func() string { return strconv.FormatInt(events[len(events)-1].Seq, 10) }
}

// appendEvent writes what a client may write. The key of the event is the
// request's, unless the client has a better name for it.
func appendEvent(tx *store.Tx, r *request, body api.EventRequest) (answer, error) {
	key := api.Value(body.EventKey)
	if key == "" {
		key = r.Header.Get(api.HeaderKey)
	}
	e, created, err := jobs.AppendEvent(tx, r.caller.Principal, r.PathValue("run_id"), jobs.EventRequest{
		Type: body.EventType, Payload: body.Payload, Key: key, ExpectedPreviousSeq: body.ExpectedPreviousSeq})
	if err != nil {
		return answer{}, err
	}
	return answer{existed: !created, value: lanes.EventOf(e)}, nil
}
