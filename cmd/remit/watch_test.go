package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"remit/work/session"
)

// TestServeSmoke: the command fetches pages without a login and with one, and every
// one is as it should be.
func TestServeSmoke(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home := session.Home{Dir: dir}
	if err := writtenSession(t, home, "20261123T100000Z-one-000001", "one").Close(); err != nil {
		t.Fatal(err)
	}
	code, out := inProcessAt(t, dir, "serve", "smoke")
	var got struct {
		Failed   int           `json:"failed"`
		Requests []smokeResult `json:"requests"`
	}
	if err := json.Unmarshal(out, &got); err != nil || code != 0 || got.Failed != 0 || len(got.Requests) < 20 {
		t.Fatalf("exit %d, %v: %s", code, err, out)
	}
	seen := map[string]int{}
	for _, r := range got.Requests {
		if r.Login {
			seen[r.Path] = r.Status
		}
	}
	if seen["/"] != 200 || seen["/runs/20261123T100000Z-one-000001"] != 200 {
		t.Errorf("%v", seen)
	}
}

// TestWatch: what is new or has changed is a line, what has not is none, and what
// others wrote drives no terminal.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := writtenSession(t, session.Home{Dir: dir}, "20261123T100000Z-one-000001", "evil\x1b[2J\u202e").Close(); err != nil {
		t.Fatal(err)
	}
	code, out := inProcessAt(t, dir, "watch", "--once")
	var line watched
	if err := json.Unmarshal(out, &line); err != nil || code != 0 || line.ID != "20261123T100000Z-one-000001" || line.Status != session.Interrupted {
		t.Errorf("exit %d, %v: %s", code, err, out)
	}
	var text bytes.Buffer
	w := watcher{out: &text, told: map[string]watched{}}
	for _, state := range [][]watched{{line}, {line}, {line, {Kind: "run", ID: "two", Status: "running", What: "evil\x1b[2J\u202e"}}} {
		if err := w.show(state); err != nil {
			t.Fatal(err)
		}
	}
	if got := text.String(); strings.Count(got, "\n") != 3 || strings.ContainsAny(got, "\x1b\u202e") || strings.Count(got, "KIND") != 1 {
		t.Errorf("%q", got)
	}
}
