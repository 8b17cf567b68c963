package lanes

import (
	"bytes"
	"encoding/json"

	"remit/nexus/api"
	"remit/nexus/store"
)

// EventOf is an event as the API shows it.
func EventOf(e store.Event) api.Event {
	return api.Event{
		StreamID: e.Stream, Seq: e.Seq, EventID: e.ID, EventType: e.Type, IdempotencyKey: api.Optional(e.IdempotencyKey),
		Payload: e.Payload, PayloadSha256: e.PayloadSHA256, RecordedAt: api.TimeOf(e.RecordedAt), Principal: e.Principal,
	}
}

// encode writes a frame as one JSON text.
func encode(f api.LaneFrame) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(f); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func eventFrame(e store.Event) ([]byte, error) {
	event := EventOf(e)
	return encode(api.LaneFrame{Type: api.LaneFrameTypeEvent, StreamID: e.Stream, Seq: &e.Seq, Event: &event})
}
