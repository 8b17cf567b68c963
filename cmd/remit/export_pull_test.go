package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"remit/fixtures/forgehost"
	"remit/fixtures/tally"
	"remit/forge/pull"
	"remit/proof/reason"
)

const forgeToken = "forge-t0ken-canary"

// TestPullRequest takes a verified change to a forge: the draft, the bundle beside it,
// ready and closed after the outcomes; and from the text of the pull request alone a
// reviewer gets to the bundle, audits it, and makes the change again.
func TestPullRequest(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	for i, gitea := range []bool{false, true} {
		if !tally.ByTurn(t, i+2, 4) {
			continue
		}
		to := map[bool]string{false: "github", true: "gitea"}[gitea]
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			root, home := t.TempDir(), t.TempDir()
			repo := gitRepo(t, map[string]string{"a.txt": "one\n", "remit.yaml": "allowed_paths: [a.txt]\nverification_commands: [\"grep -q two a.txt\"]\n"})
			bare := filepath.Join(root, "maker", "thing.git")
			gitIn(t, repo, "clone", "-q", "--bare", repo, bare)
			gitIn(t, bare, "config", "http.receivepack", "true")
			h := &forgehost.Host{Gitea: gitea, App: !gitea, Owner: "maker", Name: "thing", Token: forgeToken, Root: root,
				Backend: filepath.Join(gitIn(t, repo, "--exec-path"), "git-http-backend")}
			server := httptest.NewServer(h)
			t.Cleanup(server.Close)
			tokenFile := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(tokenFile, []byte(forgeToken+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			runs := func() { // a change that passes
				if out, err := cli(t, home, "run", "--repo", repo, "--", "sh", "-c", "echo two >>a.txt").CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			exports := func(code int, extra ...string) (pulled, string) {
				t.Helper()
				cmd := cli(t, home, append([]string{"export", "latest", "--to", to, "--forge", server.URL + "/maker/thing", "--forge-token-file", tokenFile, "--json"}, extra...)...)
				var out pulled
				unwatched := watchToken(t)
				text, err := cmd.Output()
				unwatched()
				errs := ""
				if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // of Output
					errs = string(exit.Stderr)
				}
				if cmd.ProcessState.ExitCode() != code || code == 0 && json.Unmarshal(text, &out) != nil || strings.Contains(string(text)+errs, forgeToken) {
					t.Fatalf("exit %d: %s%s", cmd.ProcessState.ExitCode(), text, errs)
				}
				return out, errs + string(text)
			}
			runs()
			if _, text := exports(3); !strings.Contains(text, string(reason.ForgeNotAllowed)) || len(h.Asked) > 0 {
				t.Fatalf("without a word of the policy: %s, %v", text, h.Asked)
			}
			policy := "allowed_paths: [a.txt]\nverification_commands: [\"grep -q two a.txt\"]\nexport: {actions: [push, pr_open, close]}\n"
			if err := os.WriteFile(filepath.Join(repo, "remit.yaml"), []byte(policy), 0o600); err != nil {
				t.Fatal(err)
			}
			gitIn(t, repo, "commit", "-qam", "allow exports")

			// Each request of git is cut in another way, and the one command mends it.
			cut, asked := map[int]string{1: forgehost.Lost, 3: forgehost.Unheard, 5: forgehost.Half, 7: forgehost.Broken}, 0
			h.Fault = func(_ int, r *http.Request) string {
				if !strings.Contains(r.URL.Path, ".git/") {
					return forgehost.Fine
				}
				asked++
				return cut[asked]
			}
			first, _ := exports(0)
			if h.Fault = nil; asked != 9 {
				t.Errorf("%d requests of git", asked)
			}
			if first.State != pull.Draft || len(first.Pushed) != 2 || len(h.Pulls) != 1 || gitIn(t, bare, "rev-parse", "refs/heads/"+first.Branch) != first.Commit {
				t.Fatalf("%+v", first)
			}
			// What stands beside the commit: at GitHub a check for the command, and the verdict with a link to it.
			if gitea && (len(h.Statuses) != 1 || h.Statuses[0].URL != first.URL || first.Verdict != "commit_status") ||
				!gitea && (len(h.Statuses) != 0 || len(h.Checks) != 2 || h.Checks[0].Name != "remit 1: grep -q two a.txt" || !strings.Contains(h.Checks[0].Summary, "- without the change: exit code 1\n- with the change: exit code 0\n") ||
					!strings.Contains(h.Checks[1].Summary, "[remit 1: grep -q two a.txt](https://forge.example/runs/1): success")) {
				t.Errorf("%+v: %+v, %+v", first, h.Statuses, h.Checks)
			}
			again, _ := exports(0)
			if len(again.Pushed)+len(again.Done) != 0 || again.Number != first.Number {
				t.Errorf("a second export changes %+v", again)
			}
			reviewed(t, bare, h.Pulls[0].Body, server.URL, "")
			// A branch that another person has moved stays as they left it.
			tip := gitIn(t, bare, "rev-parse", "HEAD")
			gitIn(t, bare, "update-ref", "refs/heads/"+first.Branch, tip)
			if _, text := exports(3); !strings.Contains(text, string(reason.ForgeConflict)) || gitIn(t, bare, "rev-parse", "refs/heads/"+first.Branch) != tip {
				t.Errorf("%s", text)
			}
			reviewed(t, bare, h.Pulls[0].Body, server.URL, "tree_mismatch") // and the reviewer sees that it is not what was verified
			gitIn(t, bare, "update-ref", "refs/heads/"+first.Branch, first.Commit)
			if out, err := cli(t, home, "accept", "latest").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if ready, _ := exports(0); ready.State != pull.Ready || ready.Commit != first.Commit || h.Pulls[0].Draft || strings.HasPrefix(h.Pulls[0].Title, "WIP") {
				t.Errorf("%+v %+v", ready, h.Pulls[0])
			}
			reviewed(t, bare, h.Pulls[0].Body, server.URL, "")

			runs()
			before, _ := exports(0, "--label", "by-remit")
			// A follow-up goes on in the same pull request, and nothing else moves a branch.
			if out, err := cli(t, home, "run", "--repo", repo, "--continue", "latest", "--message", "more", "--", "sh", "-c", "echo three >>a.txt").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			after, _ := exports(0, "--label", "by-remit")
			if after.Number != before.Number || after.Branch != before.Branch || after.Commit == before.Commit || gitIn(t, bare, "rev-parse", "refs/heads/"+before.Branch) != after.Commit ||
				len(h.Pulls) != 2 || len(h.Pulls[1].Labels) != 1 || len(h.Labels) != 1 {
				t.Errorf("%+v, then %+v: %+v", before, after, h.Pulls[1])
			}
			if again, _ := exports(0); len(again.Pushed)+len(again.Done) != 0 {
				t.Errorf("a second export changes %+v", again)
			}
			if _, text := exports(3, "--branch", first.Branch); !strings.Contains(text, string(reason.ForgeConflict)) {
				t.Errorf("a branch whose change was accepted: %s", text)
			}
			if out, err := cli(t, home, "reject", "latest", "--reason", "no").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if closed, _ := exports(0); closed.State != pull.Closed || h.Pulls[1].State != "closed" || h.Pulls[0].State != "open" {
				t.Errorf("%+v", closed)
			}
			noToken(t, home, repo, root)
		})
	}
}

var checkBlock = regexp.MustCompile("(?s)## Check it yourself.*?```sh\n(.*?)```")

// reviewed does in a fresh clone what the text of a pull request says. git asks with
// the token, as a reviewer's would; the address is that of the forge. want is what does
// not hold, "" where all does.
func reviewed(t *testing.T, bare, body, forge, want string) {
	t.Helper()
	m := checkBlock.FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("the text says nothing to do: %s", body)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	gitIn(t, bare, "clone", "-q", bare, clone)
	gitIn(t, clone, "config", "http.extraHeader", "Authorization: Basic eDpmb3JnZS10MGtlbi1jYW5hcnk=") // x:forge-t0ken-canary
	if !strings.Contains(m[1], forge+"/maker/thing.git refs/remit-bundles/") {
		t.Errorf("%s", m[1])
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", m[1])
	cmd.Dir = clone
	cmd.Env = append(plainEnv(), "GIT_ALLOW_PROTOCOL=http", "REMIT_HOME="+t.TempDir(), "PATH="+filepath.Dir(program())+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if holds := want == ""; holds != (err == nil) || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s", err, out)
	}
}

// watchToken looks from outside, until it is ended, for the token in the command line of
// any process and in the environment of any git.
func watchToken(t *testing.T) (end func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	look := func() {
		names, _ := filepath.Glob("/proc/[0-9]*/comm") // the pattern is well-formed
		for _, name := range names {
			comm, _ := os.ReadFile(name) // it may have ended
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
			if strings.HasPrefix(string(comm), "git") {
				env, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "environ"))
				line = append(line, env...)
			}
			if bytes.Contains(line, []byte(forgeToken)) && string(comm) != "grep\n" { // noToken's own
				t.Errorf("%s has the token: %q", comm, line)
			}
		}
	}
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			look()
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(done); <-ended }
}

// noToken looks for the token in files.
func noToken(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if out, _ := exec.CommandContext(t.Context(), "grep", "-rl", forgeToken, dir).Output(); len(out) > 0 {
			t.Errorf("the token is in %s", out)
		}
	}
}

// TestPullRequestWhere: a token goes to no forge that only the repository names.
func TestPullRequestWhere(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	home := t.TempDir()
	repo := gitRepo(t, map[string]string{"a.txt": "one\n", "remit.yaml": "allowed_paths: [a.txt]\nverification_commands: [\"true\"]\nexport: {actions: [push, pr_open]}\n"})
	if out, err := cli(t, home, "run", "--repo", repo, "--", "sh", "-c", "echo two >>a.txt").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for remote, want := range map[string]string{"": "--forge", "https://github.com.evil.example/o/r": "--forge https://github.com.evil.example/o/r", "ext::sh -c id": "no URL", "https://github.com/o/r": "--forge-token"} {
		_ = exec.CommandContext(t.Context(), "git", "-C", repo, "remote", "remove", "origin").Run() // there may be none
		if remote != "" {
			gitIn(t, repo, "remote", "add", "origin", remote)
		}
		cmd := cli(t, home, "export", "latest", "--to", "github")
		if remote != "https://github.com/o/r" {
			cmd.Env = append(cmd.Env, "GITHUB_TOKEN="+forgeToken)
		}
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 3 || !strings.Contains(string(out), string(reason.ForgeUnknown)) || !strings.Contains(string(out), want) {
			t.Errorf("%q: exit %d: %s", remote, cmd.ProcessState.ExitCode(), out)
		}
	}
}
