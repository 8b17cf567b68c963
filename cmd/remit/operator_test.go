package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/nexus/api"
)

// typist is a user who types commands at a nexus.
type typist struct {
	*nexus
	process *process
	home    string
}

func newTypist(t *testing.T, args ...string) *typist {
	t.Helper()
	p := serveNexus(t, args...)
	return &typist{&nexus{t, p.URL, p.Token}, p, t.TempDir()}
}

// types runs a command with a token and keeps the two outputs apart.
func (o *typist) types(token string, want int, args ...string) (stdout, stderr string) {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), program(), args...)
	cmd.Env = append(os.Environ(), "REMIT_HOME="+o.home, "REMIT_NEXUS="+o.url, "REMIT_TOKEN="+token, "REMIT_TOKEN_FILE=")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code says it
	if code := cmd.ProcessState.ExitCode(); code != want {
		o.t.Errorf("remit %v: exit %d, want %d: %s%s", args, code, want, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// TestTokensByCommand makes, lists and ends credentials, and looks for their
// texts everywhere else.
func TestTokensByCommand(t *testing.T) {
	t.Parallel()
	o := newTypist(t, "--verbose")
	text, about := o.types(o.admin, 0, "token", "new", "--owner", "alice")
	alice := strings.TrimSpace(text)
	if !strings.HasPrefix(alice, "rmt_user_") || strings.Contains(alice, "\n") || strings.Contains(about, alice) || !strings.Contains(about, "shown once") {
		t.Errorf("%q %q", text, about)
	}
	file := filepath.Join(t.TempDir(), "rack.token")
	said, more := o.types(alice, 0, "token", "new", "--kind", "registration", "--out", file, "--json")
	var made tokenMade
	if err := json.Unmarshal([]byte(said), &made); err != nil || made.Text != "" || made.File != file || !made.OneTime || made.Owner != "alice" {
		t.Errorf("%v: %s", err, said)
	}
	kept, err := os.ReadFile(file)
	info, statErr := os.Stat(file)
	if err != nil || statErr != nil || info.Mode().Perm() != 0o600 || strings.Contains(said+more, strings.TrimSpace(string(kept))) {
		t.Errorf("%v %v %v: %s", info, err, statErr, said)
	}
	count := func(args ...string) int {
		out, _ := o.types(o.admin, 0, append([]string{"token", "list", "--json"}, args...)...)
		var page api.TokenPage
		if err := json.Unmarshal([]byte(out), &page); err != nil || strings.Contains(out, alice) || strings.Contains(out, "sha256") {
			t.Errorf("%v: %s", err, out)
		}
		return len(page.Items)
	}
	if n := count("--owner", "alice"); n != 2 {
		t.Errorf("alice has %d tokens", n)
	}

	// A token that cannot be printed is not left behind.
	if _, errs := o.types(alice, 3, "token", "new", "--kind", "registration", "--out", file); !strings.Contains(errs, "output_exists") {
		t.Errorf("%s", errs)
	}
	if _, errs := o.types(alice, 3, "token", "new", "--kind", "registration", "--out", filepath.Join(t.TempDir(), "not", "there")); !strings.Contains(errs, "file_unusable") {
		t.Errorf("%s", errs)
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, kept) {
		t.Errorf("the file was written over: %v", err)
	}
	if n := count("--owner", "alice", "--all"); n != 2 {
		t.Errorf("refused before it was made, yet alice has %d tokens", n)
	}
	if full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0); err == nil {
		cmd := exec.CommandContext(t.Context(), program(), "token", "new", "--kind", "registration")
		cmd.Env, cmd.Stdout = append(os.Environ(), "REMIT_HOME="+o.home, "REMIT_NEXUS="+o.url, "REMIT_TOKEN="+alice), full
		if cmd.Run() == nil {
			t.Error("a token that was not printed was made")
		}
		if live, all := count("--owner", "alice"), count("--owner", "alice", "--all"); live != 2 || all != 3 {
			t.Errorf("%d live of %d", live, all)
		}
		_ = full.Close() // nothing can be written
	}

	// A user hands out only their own, does not see others, and names no secret.
	for _, args := range [][]string{{"--owner", "bob"}, {"--scope", "admin"}, {"--kind", "service"}} {
		o.types(alice, 3, append([]string{"token", "new"}, args...)...)
	}
	o.types(alice, 3, "token", "list", "--owner", "admin")
	for _, args := range [][]string{{"token", "revoke"}, {"runs", "show"}, {"jobs", "cancel"}, {"provider", "enable"}, {"token", "list", "--token-file"}} {
		if out, errs := o.types(alice, 1, append(args, alice)...); strings.Contains(out+errs, alice) || !strings.Contains(errs, "Revoke it") {
			t.Errorf("%v: %s%s", args, out, errs)
		}
	}
	for _, args := range [][]string{{"--kind", "king"}, {"--scope", "all"}, {"--ttl", "9000h"}, {"--ttl", "1ms"}} {
		o.types(o.admin, 1, append([]string{"token", "new"}, args...)...)
	}

	// Ended, it is nothing any more.
	// The secret is base64url, which has underscores of its own.
	parts := strings.SplitN(alice, "_", 4)
	id := parts[2]
	if out, _ := o.types(alice, 0, "__complete", "token", "revoke", ""); !strings.Contains(out, id) {
		t.Errorf("completion: %s", out)
	}
	o.types(alice, 0, "token", "revoke", id)
	if _, errs := o.types(alice, 3, "token", "list"); !strings.Contains(errs, "revoked") {
		t.Errorf("%s", errs)
	}
	if out, _ := o.types(o.admin, 0, "token", "list", "--owner", "alice", "--all"); !strings.Contains(out, "revoked") {
		t.Errorf("%s", out)
	}
	o.process.stop(t)
	for _, secret := range []string{alice, strings.TrimSpace(string(kept)), parts[3]} {
		if strings.Contains(o.process.log.String(), secret) {
			t.Error("the log of the nexus holds a token")
		}
	}
}

// TestOperatorsCommands drives providers, books, runs and jobs at a nexus that
// has no machine at work.
func TestOperatorsCommands(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	o := newTypist(t)
	token := func(owner string) string {
		text, _ := o.types(o.admin, 0, "token", "new", "--owner", owner)
		return strings.TrimSpace(text)
	}
	alice, bob := token("alice"), token("bob")
	provider, _ := o.enrol("alice", "rack-1")

	// Providers, by name and by id; what no flag names stays.
	if out, _ := o.types(alice, 0, "provider", "caps", "rack-1", "--memory-mb", "4096"); !strings.Contains(out, "4096 MB memory, 512 MB disk, 256 processes, 120 s") {
		t.Errorf("%s", out)
	}
	if out, _ := o.types(alice, 0, "provider", "disable", "rack-1", "--reason", "moving"); !strings.Contains(out, "mode        disabled") {
		t.Errorf("%s", out)
	}
	if out, _ := o.types(o.admin, 0, "provider", "enable", "rack-1", "--owner", "alice"); !strings.Contains(out, "mode        enabled") {
		t.Errorf("%s", out)
	}
	for _, args := range [][]string{{"enable", "rack-1"}, {"enable", provider}, {"caps", provider}, {"disable", provider}, {"lift", provider, "--reason", "x"},
		{"retire", provider}, {"delete", provider}} {
		if _, errs := o.types(bob, 3, append([]string{"provider"}, args...)...); !strings.Contains(errs, "no provider") {
			t.Errorf("bob %v: %s", args, errs)
		}
	}
	if out, _ := o.types(alice, 0, "provider", "list"); !strings.Contains(out, provider) || !strings.Contains(out, "enabled") {
		t.Errorf("%s", out)
	}
	if out, _ := o.types(bob, 0, "provider", "list"); strings.Contains(out, provider) {
		t.Errorf("bob sees %s", out)
	}
	o.types(bob, 3, "provider", "list", "--owner", "alice")
	o.types(alice, 1, "provider", "disable", "--reason", "which one?")
	o.types(alice, 1, "provider", "lift", "rack-1")
	if _, errs := o.types(alice, 0, "provider", "lift", "rack-1", "--reason", "nothing to lift"); !strings.Contains(errs, "has no quarantine") {
		t.Errorf("%s", errs)
	}

	// Books.
	if _, errs := o.types(o.admin, 3, "treasury", "fund", "--owner", "alice", "--amount", "5000"); !strings.Contains(errs, "remit treasury account --limit") {
		t.Errorf("%s", errs)
	}
	if _, errs := o.types(alice, 3, "treasury", "fund", "--amount", "5000", "--limit", "100000"); !strings.Contains(errs, "no account was opened") {
		t.Errorf("%s", errs)
	}
	if out, _ := o.types(alice, 0, "treasury", "accounts"); out != "No accounts.\n" {
		t.Errorf("a refused funding has opened an account: %s", out)
	}
	o.types(alice, 0, "treasury", "account", "--limit", "100000")
	o.types(alice, 3, "treasury", "fund", "--amount", "5000")
	if out, _ := o.types(o.admin, 0, "treasury", "fund", "--owner", "alice", "--amount", "5000"); !strings.Contains(out, "5000") {
		t.Errorf("%s", out)
	}
	if out, _ := o.types(alice, 0, "treasury", "accounts", "--json"); !strings.Contains(out, `"funded": 5000`) {
		t.Errorf("%s", out)
	}

	// A job that no provider can take leaves no open run behind.
	if _, errs := o.types(alice, 3, "jobs", "dispatch", "--source", "/srv/repos/demo", "--command", "true", "--settle"); !strings.Contains(errs, "heartbeat is missing") && !strings.Contains(errs, "no_eligible_provider") {
		t.Errorf("%s", errs)
	}
	var runs api.RunPage
	list := func(args ...string) {
		out, _ := o.types(alice, 0, append([]string{"runs", "list", "--json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &runs); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	if list(); len(runs.Items) != 1 || runs.Items[0].Status != "failed" || runs.Items[0].RepoRef != "/srv/repos/demo" {
		t.Errorf("%+v", runs.Items)
	}
	for _, args := range [][]string{{}, {"--command", "true"}, {"--command", "true", "--request", "x"}, {"--job-type", "remit.engine_run.v1", "--command", "true"},
		{"--command", "true", "--source", "/x", "--disk-mb", "-1"}} {
		o.types(alice, 1, append([]string{"jobs", "dispatch"}, args...)...)
	}
	if _, errs := o.types(alice, 3, "jobs", "dispatch", "--request", "/nowhere"); !strings.Contains(errs, "file_unusable") {
		t.Errorf("%s", errs)
	}
	if list(); len(runs.Items) != 1 {
		t.Error("a wrong command line made a run")
	}
	out, _ := o.types(alice, 0, "runs", "new", "--repo-ref", "demo", "--json")
	var run runWithJobs
	if err := json.Unmarshal([]byte(out), &run); err != nil || run.RepoRef != "demo" {
		t.Fatalf("%v: %s", err, out)
	}
	if list("--limit", "1"); len(runs.Items) != 1 || runs.Items[0].RunID != run.RunID {
		t.Errorf("%+v", runs.Items)
	}
	if out, _ := o.types(alice, 0, "runs", "receipts", "latest"); !strings.Contains(out, "RunCreated") || !strings.Contains(out, "user:alice") {
		t.Errorf("%s", out)
	}
	o.types(bob, 3, "runs", "show", run.RunID)
	o.types(bob, 3, "runs", "finish", run.RunID)
	o.types(bob, 3, "runs", "show", "latest")
	if out, _ := o.types(alice, 0, "__complete", "runs", "show", ""); !strings.Contains(out, run.RunID) || !strings.Contains(out, "latest") {
		t.Errorf("%s", out)
	}
	if _, errs := o.types(alice, 1, "runs", "finish", "latest", "--reason", "enough"); !strings.Contains(errs, "has no job") || !strings.Contains(errs, "--status") {
		t.Errorf("%s", errs)
	}
	if out, _ := o.types(alice, 0, "runs", "finish", "latest", "--status", "succeeded", "--reason", "enough"); !strings.Contains(out, "succeeded") {
		t.Errorf("%s", out)
	}
	if out, _ := o.types(alice, 0, "jobs", "list"); out != "No jobs.\n" {
		t.Errorf("%s", out)
	}
	o.types(alice, 3, "jobs", "show", "job_none")
	o.types(alice, 1, "jobs", "list", "--state", "lost")

	// Out of service, and gone: each step that comes too early or too late says so.
	refused := func(want string, args ...string) {
		t.Helper()
		if _, errs := o.types(alice, 3, append([]string{"provider"}, args...)...); !strings.Contains(errs, want) {
			t.Errorf("%v: %s", args, errs)
		}
	}
	refused("remit provider retire", "delete", provider)
	refused("is not retired", "delete", "rack-1")
	if out, _ := o.types(alice, 0, "provider", "retire", "rack-1", "--reason", "sold"); !strings.Contains(out, "retired at") {
		t.Errorf("%s", out)
	}
	refused("is retired, for good", "retire", "rack-1")
	refused("is retired, for good", "caps", "rack-1")
	refused("retired", "enable", provider)
	if out, _ := o.types(alice, 0, "provider", "list"); out != "No providers.\n" {
		t.Errorf("%s", out)
	}
	if out, _ := o.types(alice, 0, "provider", "list", "--retired"); !strings.Contains(out, provider) {
		t.Errorf("%s", out)
	}
	if out, _ := o.types(alice, 0, "provider", "delete", "rack-1"); !strings.Contains(out, provider+" is deleted") {
		t.Errorf("%s", out)
	}
	refused("no provider", "delete", "rack-1")

	// A machine whose registration has ended joins again in its place.
	join := func(want int) (stdout, stderr string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "registration")
		o.types(alice, 0, "token", "new", "--kind", "registration", "--out", file)
		return o.types("", want, "provider", "join", "--name", "rack-2", "--token-file", file)
	}
	join(0)
	if _, errs := join(3); !strings.Contains(errs, "registered already") {
		t.Errorf("%s", errs)
	}
	o.types(alice, 0, "provider", "retire", "rack-2")
	if out, _ := join(0); !strings.Contains(out, "rack-2") {
		t.Errorf("%s", out)
	}

	// Completion says nothing, soon, where it may not or cannot ask.
	for _, token := range []string{"", "rmt_user_x"} {
		if out, errs := o.types(token, 0, "__complete", "jobs", "show", ""); strings.Contains(out, "job_") || strings.Contains(errs, "rmt_user_x") {
			t.Errorf("%s %s", out, errs)
		}
	}
	o.process.stop(t)
	o.types(alice, 0, "__complete", "jobs", "show", "")
}

// TestOperatorsCommandsExplainThemselves holds every command of an operator to
// the same: it has help with an example, --json, a way to a nexus, and no flag
// that takes the text of a token.
func TestOperatorsCommandsExplainThemselves(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, group := range newRoot().Commands() {
		if !slices.Contains([]string{"token", "runs", "jobs", "treasury", "provider"}, group.Name()) {
			continue
		}
		for _, c := range group.Commands() {
			if group.Name() == "treasury" && c.Name() == "reconcile" {
				continue
			}
			seen++
			if c.Short == "" || c.Example == "" && !slices.Contains([]string{"join", "start"}, c.Name()) {
				t.Errorf("%s has no help or no example", c.CommandPath())
			}
			if c.Name() != "start" && (c.Flags().Lookup("nexus") == nil || c.Flags().Lookup("token-file") == nil) {
				t.Errorf("%s does not say which nexus, and as whom", c.CommandPath())
			}
			if c.Flags().Lookup("token") != nil {
				t.Errorf("%s takes a token on the command line, where everybody reads it", c.CommandPath())
			}
		}
	}
	if seen < 24 {
		t.Errorf("%d commands: the test proves little", seen)
	}
}
