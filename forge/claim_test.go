package forge_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/fixtures/forgehost"
	"remit/forge"
	"remit/forge/pull"
	"remit/forge/push"
	"remit/proof/reason"
)

// gitOut is what git says in dir, without anybody's configuration.
func gitOut(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// claims is a claim of issue 7 at a forge with an empty repository.
func claims(t *testing.T, gitea bool) (forge.Claim, *forgehost.Host, string) {
	t.Helper()
	root := t.TempDir()
	bare := filepath.Join(root, "maker", "thing.git")
	gitOut(t, root, "init", "-q", "--bare", bare)
	gitOut(t, bare, "config", "http.receivepack", "true")
	h := &forgehost.Host{Gitea: gitea, Owner: "maker", Name: "thing", Token: "s3cret-token", Root: root, Backend: filepath.Join(gitOut(t, root, "--exec-path"), "git-http-backend")}
	if _, err := os.Stat(h.Backend); err != nil {
		t.Skipf("git has no server for HTTP here: %v", err)
	}
	h.Commit = func(id string) (string, time.Time) {
		text := gitOut(t, bare, "log", "-1", "--format=%cI%n%B", id)
		when, message, _ := strings.Cut(text, "\n")
		at, err := time.Parse(time.RFC3339, when)
		if err != nil {
			t.Error(err)
		}
		return message + "\n", at
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	address, err := pull.ParseAddress(map[bool]pull.Kind{true: pull.Gitea, false: pull.GitHub}[gitea], server.URL+"/maker/thing")
	if err != nil {
		t.Fatal(err)
	}
	client := &pull.Client{Address: address, Token: h.Token, HTTP: server.Client(), Wait: func(context.Context, time.Duration) error { return nil }}
	return forge.Claim{Client: client, Remote: push.Remote{URL: address.Git(), User: "x", Token: h.Token, Client: server.Client()}, Issue: 7}, h, bare
}

func nothing(string) error { return nil }

// TestClaim: of those who want an issue at once one has it, until it gives it back, or
// for twelve hours.
func TestClaim(t *testing.T) {
	t.Parallel()
	for _, gitea := range []bool{false, true} {
		claim, _, bare := claims(t, gitea)
		now := time.Now()
		var all sync.WaitGroup
		errs, commits := make([]error, 4), make([]string, 4)
		for i := range errs {
			all.Go(func() {
				own := claim
				client := *claim.Client
				own.Client = &client
				errs[i] = own.Take(t.Context(), fmt.Sprint("session-", i), now, func(commit string) error { commits[i] = commit; return nil })
			})
		}
		all.Wait()
		won := -1
		for i, err := range errs {
			switch {
			case err == nil && won < 0:
				won = i
			case reason.CodeOf(err) != reason.IssueClaimed:
				t.Errorf("%d: %v beside %d", i, err, won)
			}
		}
		if won < 0 || gitOut(t, bare, "rev-parse", claim.Ref()) != commits[won] {
			t.Fatalf("no session has the issue: %v", errs)
		}
		winner := fmt.Sprint("session-", won)
		if err := claim.Take(t.Context(), "late", now.Add(time.Hour), nothing); reason.CodeOf(err) != reason.IssueClaimed || !strings.Contains(err.Error(), winner) {
			t.Errorf("an hour later: %v", err)
		}
		if err := claim.Take(t.Context(), "late", now.Add(13*time.Hour), nothing); err != nil {
			t.Errorf("thirteen hours later: %v", err)
		}
		if released, err := claim.Release(t.Context(), commits[won]); err != nil || released {
			t.Errorf("the claim of another was released: %v", err)
		}
		if released, err := claim.Release(t.Context(), ""); err != nil || !released || gitOut(t, bare, "for-each-ref") != "" {
			t.Errorf("%v", err)
		}
		claim.Remote.Token = "another"
		if err := claim.Take(t.Context(), "x", now, nothing); reason.CodeOf(err) != reason.ForgeDenied {
			t.Errorf("without a right: %v", err)
		}
	}
}

// TestClaimCutAtEachCall: an answer that is lost neither leaves the issue claimed without a run nor
// gives it to two.
func TestClaimCutAtEachCall(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{forgehost.Lost, forgehost.Unheard, forgehost.Broken} {
		for n := 1; n <= 2; n++ { // its refs, and the push
			claim, h, bare := claims(t, false)
			h.Fault = func(i int, _ *http.Request) string {
				if i == n {
					return fault
				}
				return forgehost.Fine
			}
			now := time.Now()
			err := claim.Take(t.Context(), "a", now, nothing)
			if err != nil && n == 1 { // nothing was begun
				err = claim.Take(t.Context(), "a", now, nothing)
			}
			if err != nil {
				t.Errorf("%s at request %d: %v", fault, n, err)
			}
			if err := claim.Take(t.Context(), "b", now, nothing); reason.CodeOf(err) != reason.IssueClaimed {
				t.Errorf("%s at request %d: a second claim: %v", fault, n, err)
			}
			if _, err := claim.Release(t.Context(), ""); err != nil || gitOut(t, bare, "for-each-ref") != "" {
				t.Errorf("%s at request %d: %v", fault, n, err)
			}
		}
	}
}
