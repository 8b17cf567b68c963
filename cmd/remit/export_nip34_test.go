package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/forge/nip34"
	"remit/nexus/bridge"
	"remit/proof/nostr"
	"remit/proof/reason"
)

// changesRelay is the address of the built-in relay, which keeps changes.
func changesRelay(t *testing.T) string {
	t.Helper()
	_, said := background(t, t.TempDir(), "bridge", "relay", "--changes", "--listen", "127.0.0.1:0", "--json")
	var relay struct {
		URL string `json:"url"`
	}
	if err := said.Decode(&relay); err != nil {
		t.Fatal(err)
	}
	return relay.URL
}

// eventsAt is all that a relay has.
func eventsAt(t *testing.T, relay string) (list []nostr.Event) {
	t.Helper()
	if err := bridge.Fetch(t.Context(), relay, nostr.Filter{}, func(raw json.RawMessage) {
		var e nostr.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Error(err)
		}
		list = append(list, e)
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// nostrSecret is a key of tests alone.
const nostrSecret = "5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e"

func nostrKey(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "nostr.key")
	if err := os.WriteFile(name, []byte(nostrSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// exportNostr exports the latest session to relays; the key is in no output.
func exportNostr(t *testing.T, home string, code int, args ...string) (out nip34.Result, text string) {
	t.Helper()
	cmd := cli(t, home, append([]string{"export", "latest", "--to", "nip34", "--json"}, args...)...)
	got, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // of Output
		text = string(exit.Stderr)
	}
	if cmd.ProcessState.ExitCode() != code || code == 0 && json.Unmarshal(got, &out) != nil || strings.Contains(text+string(got), nostrSecret) {
		t.Fatalf("exit %d: %s%s", cmd.ProcessState.ExitCode(), got, text)
	}
	return out, text
}

// TestExportToRelay takes a verified change to the built-in relay: refused without a word
// of the policy, a draft, nothing new when it is given again, open after the outcome,
// applied when the repository has it. git am makes the very commit of the patch that the
// relay has.
func TestExportToRelay(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	requireSandbox(t)
	relay, home := changesRelay(t), t.TempDir()
	config := "allowed_paths: [a.txt]\nverification_commands: [\"grep -q two a.txt\"]\n"
	repo := gitRepo(t, map[string]string{"a.txt": "one\n", "remit.yaml": config})
	if out, err := cli(t, home, "run", "--repo", repo, "--", "sh", "-c", "echo two >>a.txt").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	keyFile := nostrKey(t)
	exports := func(code int, args ...string) (nip34.Result, string) {
		t.Helper()
		return exportNostr(t, home, code, args...)
	}
	to := []string{"--relay", relay, "--key-file", keyFile}
	exports(1, "--key-file", keyFile)                               // no relay
	exports(1, "--relay", relay)                                    // no key
	exports(1, append(to, "--clone", "https://me:pw@x.example")...) // a password for everybody
	if _, text := exports(3, to...); !strings.Contains(text, string(reason.ForgeNotAllowed)) {
		t.Fatal(text)
	}
	events := func() []nostr.Event { return eventsAt(t, relay) }
	if len(events()) > 0 {
		t.Fatal("something was published that the policy does not allow")
	}
	if err := os.WriteFile(filepath.Join(repo, "remit.yaml"), []byte(config+"export: {actions: [relay_publish]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gitIn(t, repo, "commit", "-qam", "allow exports")
	draft, _ := exports(0, to...)
	if draft.Status != nip34.KindDraft || draft.Kind != nip34.KindPatch || len(draft.Done) != 3 || len(events()) != 3 {
		t.Fatalf("%+v", draft)
	}
	if again, _ := exports(0, to...); len(again.Done) > 0 || again.Event != draft.Event || len(events()) != 3 {
		t.Errorf("a second export sends %+v", again)
	}
	var patch nostr.Event
	for _, e := range events() {
		if err := e.Verify(); err != nil {
			t.Error(err)
		}
		if e.Kind == nip34.KindPatch {
			patch = e
		}
	}
	am := t.TempDir()
	gitIn(t, am, "clone", "-q", repo, ".")
	gitIn(t, am, "checkout", "-q", patch.Tag("parent-commit"))
	mail := filepath.Join(t.TempDir(), "mail")
	if err := os.WriteFile(mail, []byte(patch.Content), 0o600); err != nil {
		t.Fatal(err)
	}
	by := patch.Values("committer")
	apply := exec.CommandContext(t.Context(), "git", "-C", am, "am", "-q", "--committer-date-is-author-date", mail)
	apply.Env = append(os.Environ(), "GIT_COMMITTER_NAME="+by[0], "GIT_COMMITTER_EMAIL="+by[1], "GIT_CONFIG_NOSYSTEM=1")
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := gitIn(t, am, "rev-parse", "HEAD"); got != patch.Tag("commit") {
		t.Errorf("git am makes %s of the patch of %s: %s", got, patch.Tag("commit"), gitIn(t, am, "cat-file", "commit", "HEAD"))
	}
	if out, err := cli(t, home, "accept", "latest").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if open, _ := exports(0, to...); open.Status != nip34.KindOpen || len(open.Done) != 1 || open.Event != draft.Event {
		t.Errorf("%+v", open)
	}
	gitIn(t, am, "push", "-q", "origin", "HEAD:refs/heads/change")
	gitIn(t, repo, "-c", "user.name=x", "-c", "user.email=x@localhost", "merge", "-q", "--no-edit", "change")
	if applied, _ := exports(0, to...); applied.Status != nip34.KindApplied || len(applied.Done) != 1 {
		t.Errorf("%+v", applied)
	}
	// The relay of the mirror takes none of it.
	if _, text := exports(3, "--relay", bridgeRelay(t), "--key-file", keyFile); !strings.Contains(text, string(reason.ForgeDenied)) || !strings.Contains(text, "not a provider ad or receipt pointer") {
		t.Error(text)
	}
}

// TestPullRequestAtRelay takes a change that is too large for a patch to the built-in relay:
// refused without the place of its commit, a pull request and its draft, an update of it by
// the follow-up of the run, nothing new when that is given again. The commit that each names
// is the one that the export to a branch makes, on the base that it names.
func TestPullRequestAtRelay(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	requireSandbox(t)
	relay, home := changesRelay(t), t.TempDir()
	repo := gitRepo(t, map[string]string{"a.txt": "one\n",
		"remit.yaml": "allowed_paths: [a.txt]\nverification_commands: [\"grep -q two a.txt\"]\nexport: {actions: [relay_publish]}\n"})
	base := gitIn(t, repo, "rev-parse", "HEAD")
	must := func(args ...string) {
		t.Helper()
		if out, err := cli(t, home, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	const clone = "https://git.example/thing.git"
	to := []string{"--relay", relay, "--key-file", nostrKey(t)}
	must("run", "--repo", repo, "--", "sh", "-c", "echo two >>a.txt; seq 20000 >>a.txt")
	if _, text := exportNostr(t, home, 3, to...); !strings.Contains(text, "--clone URL") || len(eventsAt(t, relay)) > 0 {
		t.Fatal(text)
	}
	to = append(to, "--clone", clone)
	event := func(id, branch string, kind int) nostr.Event {
		t.Helper()
		must("export", "latest", "--to", "branch", "--branch", branch)
		for _, e := range eventsAt(t, relay) {
			if e.ID != id {
				continue
			}
			if err := e.Verify(); err != nil || e.Kind != kind || e.Tag("clone") != clone || e.Tag("verification_passed") != "true" || e.Tag("trajectory_hash") == "" ||
				e.Tag("c") != gitIn(t, repo, "rev-parse", branch) || e.Tag("merge-base") != base {
				t.Errorf("%v of %s: %+v", err, gitIn(t, repo, "rev-parse", branch), e)
			}
			return e
		}
		t.Fatalf("the relay has no event %s", id)
		return nostr.Event{}
	}
	opened, _ := exportNostr(t, home, 0, to...)
	if opened.Kind != nip34.KindPull || opened.Status != nip34.KindDraft || len(opened.Done) != 3 || opened.Root != opened.Event {
		t.Fatalf("%+v", opened)
	}
	first := event(opened.Event, "first", nip34.KindPull)
	must("run", "--repo", repo, "--continue", "latest", "--message", "more", "--", "sh", "-c", "echo three >>a.txt")
	updated, _ := exportNostr(t, home, 0, to...)
	if updated.Kind != nip34.KindUpdate || updated.Root != opened.Event || len(updated.Done) != 1 {
		t.Fatalf("%+v", updated)
	}
	second := event(updated.Event, "second", nip34.KindUpdate)
	if second.Tag("E") != opened.Event || second.Tag("P") != opened.PubKey || second.Tag("c") == first.Tag("c") || second.Tag("trajectory") == first.Tag("trajectory") {
		t.Errorf("%+v after %+v", second, first)
	}
	if again, _ := exportNostr(t, home, 0, to...); len(again.Done) > 0 || again.Event != updated.Event || len(eventsAt(t, relay)) != 4 {
		t.Errorf("a second export sends %+v", again)
	}
	must("accept", "latest")
	if open, _ := exportNostr(t, home, 0, to...); open.Status != nip34.KindOpen || open.Root != opened.Event || len(open.Done) != 1 {
		t.Errorf("%+v", open)
	}
}
