package jobs

import (
	"encoding/json"
	"testing"

	"remit/nexus/store"
	"remit/proof/journal"
)

// TestCompareJournal: an event of the log is held against the bundle's entry field by
// field, and documents by content, however they are written.
func TestCompareJournal(t *testing.T) {
	t.Parallel()
	prev := "sha256:00"
	is := journal.Entry{V: journal.Version, Seq: 0, SessionID: "s", StepID: "run", Name: "run.opened", Status: journal.Completed, StartedAt: "t",
		Inputs: json.RawMessage(`{"a":"<","b":1}`), Outputs: json.RawMessage(`{}`), PrevHash: &prev, EntryHash: "sha256:11"}
	for name, test := range map[string]struct {
		told string
		same bool
	}{
		"the same":               {`{"session_id":"s","seq":0,"step_id":"run","name":"run.opened","status":"completed","started_at":"t","completed_at":null,"prev_hash":"sha256:00","entry_hash":"sha256:11","inputs":{"a":"<","b":1},"outputs":{}}`, true},
		"written otherwise":      {`{"session_id":"s","seq":0,"step_id":"run","name":"run.opened","status":"completed","started_at":"t","completed_at":null,"prev_hash":"sha256:00","entry_hash":"sha256:11","inputs":{"b":1, "a":"\u003c"},"outputs":{}}`, true},
		"cut":                    {`{"session_id":"s","seq":0,"step_id":"run","name":"run.opened","status":"completed","started_at":"t","completed_at":null,"prev_hash":"sha256:00","entry_hash":"sha256:11","cut":true}`, true},
		"cut, another status":    {`{"session_id":"s","seq":0,"step_id":"run","name":"run.opened","status":"failed","started_at":"t","completed_at":null,"prev_hash":"sha256:00","entry_hash":"sha256:11","cut":true}`, false},
		"another session":        {`{"session_id":"x","seq":0,"step_id":"run","name":"run.opened","status":"completed","started_at":"t","completed_at":null,"prev_hash":"sha256:00","entry_hash":"sha256:11","inputs":{"a":"<","b":1},"outputs":{}}`, false},
		"another document":       {`{"session_id":"s","seq":0,"step_id":"run","name":"run.opened","status":"completed","started_at":"t","completed_at":null,"prev_hash":"sha256:00","entry_hash":"sha256:11","inputs":{"a":">","b":1},"outputs":{}}`, false},
		"another end":            {`{"session_id":"s","seq":0,"step_id":"run","name":"run.opened","status":"completed","started_at":"t","completed_at":"t","prev_hash":"sha256:00","entry_hash":"sha256:11","inputs":{"a":"<","b":1},"outputs":{}}`, false},
		"no entry before it":     {`{"session_id":"s","seq":0,"step_id":"run","name":"run.opened","status":"completed","started_at":"t","completed_at":null,"prev_hash":null,"entry_hash":"sha256:11","inputs":{"a":"<","b":1},"outputs":{}}`, false},
		"another one before it":  {`{"session_id":"s","seq":0,"step_id":"run","name":"run.opened","status":"completed","started_at":"t","completed_at":null,"prev_hash":"sha256:01","entry_hash":"sha256:11","inputs":{"a":"<","b":1},"outputs":{}}`, false},
		"not in the bundle":      {`{"session_id":"s","seq":1,"step_id":"run","name":"run.opened","status":"completed","started_at":"t","completed_at":null,"prev_hash":"sha256:00","entry_hash":"sha256:11","cut":true}`, false},
		"no entry of a journal":  {`{"seq":"0"}`, false},
		"documents that are bad": {`{"session_id":"s","seq":0,"step_id":"run","name":"run.opened","status":"completed","started_at":"t","completed_at":null,"prev_hash":"sha256:00","entry_hash":"sha256:11","inputs":{"a":1e400},"outputs":{}}`, false},
	} {
		if got := CompareJournal(store.Event{Type: EventJournal, Seq: 7, Payload: []byte(test.told)}, []journal.Entry{is}); (got == "") != test.same {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := CompareJournal(store.Event{Type: "receipt", Payload: []byte(`{}`)}, nil); got != "" {
		t.Errorf("a receipt is compared: %s", got)
	}
}
