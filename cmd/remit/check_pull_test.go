package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/forgehost"
	"remit/fixtures/tally"
	"remit/proof/reason"
)

// TestCheckPullRequest checks a pull request of a fork at both kinds of forges: head and
// base come from the forge, the commits are fetched without touching the clone, and the
// token is nowhere.
func TestCheckPullRequest(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 5)
	requireSandbox(t)
	for i, gitea := range []bool{true, false} {
		if !tally.ByTurn(t, i, 2) {
			continue
		}
		kind, page := "github", "/maker/thing/pull/1"
		if gitea {
			kind, page = "gitea", "/maker/thing/pulls/1"
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			root, home, repo := t.TempDir(), t.TempDir(), checkRepo(t)
			branch(t, repo, "feature", "trunk", "echo two >>src/b.txt")
			branch(t, repo, "bad", "trunk", "echo bad >>src/a.txt")
			bare := filepath.Join(root, "maker", "thing.git")
			gitIn(t, repo, "clone", "-q", "--bare", repo, bare)
			clone := filepath.Join(t.TempDir(), "clone")
			gitIn(t, repo, "clone", "-q", "--single-branch", "--branch", "trunk", "file://"+bare, clone)
			h := &forgehost.Host{Gitea: gitea, Owner: "maker", Name: "thing", Token: forgeToken, Root: root,
				Backend: filepath.Join(gitIn(t, repo, "--exec-path"), "git-http-backend")}
			for i, name := range []string{"feature", "bad"} {
				id := gitIn(t, bare, "rev-parse", "refs/heads/"+name)
				gitIn(t, bare, "update-ref", []string{"refs/pull/1/head", "refs/pull/2/head"}[i], id)
				gitIn(t, bare, "update-ref", "-d", "refs/heads/"+name)
				h.Pulls = append(h.Pulls, &forgehost.Pull{Number: i + 1, State: "open", Head: name, Base: "trunk", Fork: "stranger/thing", SHA: id, Title: "\x1b[2J::error::"})
			}
			server := httptest.NewServer(h)
			t.Cleanup(server.Close)
			tokenFile := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(tokenFile, []byte(forgeToken+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			untouched(t, clone)
			at := []string{"--forge", server.URL + "/maker/thing", "--forge-kind", kind, "--forge-token-file", tokenFile}
			got := checks(t, home, clone, passes, append([]string{"--pr", "1"}, at...)...)
			if c := got.Checked; c.HeadCommit != h.Pulls[0].SHA || c.PullRequest != server.URL+page || c.Commits != 1 {
				t.Errorf("checked %+v", c)
			}
			audited(t, home, got.SessionDir)
			if out, err := cli(t, home, "reproduce", got.SessionDir, "--repo", clone).CombinedOutput(); err != nil {
				t.Errorf("reproduce: %v\n%s", err, out)
			}
			checks(t, home, clone, failsAs(reason.VerificationFailed), "--pr", server.URL+strings.TrimSuffix(page, "1")+"2", "--forge-token-file", tokenFile)
			for _, asked := range h.Asked {
				if !strings.HasPrefix(asked, "GET ") && !strings.HasSuffix(asked, "/git-upload-pack") {
					t.Errorf("a check asked for %s", asked)
				}
			}

			// Without a right to it there is no answer, unless it is public.
			refusesCheck(t, clone, 3, string(reason.ForgeDenied), "--pr", server.URL+page)
			h.Public = true
			checks(t, home, clone, passes, "--pr", server.URL+page)
			h.Public = false

			refusesCheck(t, clone, 3, string(reason.ForgeUnknown), "--pr", "1")
			refusesCheck(t, clone, 3, string(reason.ForgeUnknown), "--pr", server.URL+"/maker/thing/issues/1")
			refusesCheck(t, clone, 1, "--pr", "--pr", "-1")
			refusesCheck(t, clone, 3, string(reason.ForgeDenied), append([]string{"--pr", "9"}, at...)...)
			h.Pulls[1].SHA = strings.Repeat("a", 40) // it has moved between the two questions
			refusesCheck(t, clone, 3, string(reason.ForgeConflict), append([]string{"--pr", "2"}, at...)...)
			h.Pulls[1].SHA = gitIn(t, bare, "rev-parse", "refs/pull/2/head")
			moved := gitIn(t, bare, "commit-tree", "-m", "on", "-p", "trunk", "trunk^{tree}")
			gitIn(t, bare, "update-ref", "refs/heads/trunk", moved) // the clone is behind
			refusesCheck(t, clone, 3, "git fetch", append([]string{"--pr", "1"}, at...)...)
			noToken(t, home, clone)
		})
	}
}

// TestCheckPackOfAStranger gets from a forge what is no pack of the commit.
func TestCheckPackOfAStranger(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	repo := checkRepo(t)
	base, head := gitIn(t, repo, "rev-parse", "trunk"), strings.Repeat("ab", 20)
	for name, answer := range map[string]string{"empty": "", "no pack": "0008NAK\nPACKnonsense", "error": "000dERR no\x1b[2J\n", "html": "<html>", "other": "0009what\n", "long": "fff1x"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.Contains(r.URL.Path, "/pulls/1"):
					doc, _ := json.Marshal(map[string]any{"number": 1, "head": map[string]string{"sha": head}, "base": map[string]string{"ref": "trunk"}}) // plain values
					_, _ = w.Write(doc)                                                                                                                    // the client says what is missing
				case strings.HasSuffix(r.URL.Path, "/info/refs"):
					w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
					line := func(s string) string { return pktLine(s) }
					_, _ = w.Write([]byte(line("# service=git-upload-pack\n") + "0000" + line(base+" refs/heads/trunk\x00object-format=sha1\n") + line(head+" refs/pull/1/head\n") + "0000"))
				default:
					w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
					_, _ = w.Write([]byte(answer))
				}
			}))
			t.Cleanup(server.Close)
			cmd := cli(t, t.TempDir(), "check", "--json", "--repo", repo, "--pr", server.URL+"/maker/thing/pull/1")
			out, _ := cmd.Output() // its exit code is looked at
			if code := cmd.ProcessState.ExitCode(); code == 0 || slices.Contains([]int{1}, code) && !strings.Contains(string(out), "error") || strings.Contains(string(out), "\x1b") {
				t.Errorf("exit %d: %s", code, out)
			}
		})
	}
}

func pktLine(s string) string {
	const hex = "0123456789abcdef"
	n := len(s) + 4
	return string([]byte{hex[n>>12&15], hex[n>>8&15], hex[n>>4&15], hex[n&15]}) + s
}
