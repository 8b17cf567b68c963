package push_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/forge/push"
	"remit/proof/reason"
	"remit/work/git"
)

const user, token = "x-access-token", "s3cret-token"

// run starts git in dir, without the configuration of the user.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// served is a clone with one commit more than the repository that git's own server
// shows over HTTP.
func served(t *testing.T) (remote push.Remote, bare string, clone git.Dir, commit string) {
	t.Helper()
	backend := filepath.Join(run(t, ".", "--exec-path"), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skipf("git has no server for HTTP here: %v", err)
	}
	root := t.TempDir()
	work := filepath.Join(root, "work")
	bare = filepath.Join(root, "served", "r.git")
	run(t, root, "init", "-q", "-b", "main", work)
	if err := os.WriteFile(filepath.Join(work, "a.txt"), []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, work, "add", ".")
	run(t, work, "commit", "-qm", "one")
	run(t, root, "clone", "-q", "--bare", work, bare)
	run(t, bare, "config", "http.receivepack", "true")
	if err := os.WriteFile(filepath.Join(work, "a.txt"), []byte("two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, work, "commit", "-qam", "two")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, word, ok := r.BasicAuth(); !ok || name != user || word != token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/moved") {
			http.Redirect(w, r, "/r.git"+strings.TrimPrefix(r.RequestURI, "/moved"), http.StatusFound)
			return
		}
		(&cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(bare), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=a"}}).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return push.Remote{URL: server.URL + "/r.git", User: user, Token: token, Client: server.Client()}, bare,
		git.Dir{Path: filepath.Join(work, ".git"), Format: git.SHA1}, run(t, work, "rev-parse", "HEAD")
}

func TestPush(t *testing.T) {
	t.Parallel()
	remote, bare, store, commit := served(t)
	refs, err := remote.Refs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	base := run(t, bare, "rev-parse", "main")
	if refs.Names["refs/heads/main"] != base || refs.Format != git.SHA1 {
		t.Fatalf("%+v", refs)
	}
	zero := git.SHA1.Zero()
	updates := []push.Update{{Ref: "refs/heads/remit/x", Old: zero, New: commit}, {Ref: "refs/remit/x", Old: zero, New: commit}}
	if err := remote.Push(t.Context(), store, refs, updates); err != nil {
		t.Fatal(err)
	}
	for _, u := range updates {
		if got := run(t, bare, "rev-parse", u.Ref); got != commit {
			t.Errorf("%s is at %s", u.Ref, got)
		}
	}
	run(t, bare, "fsck", "--strict")
	// What it has already is not sent again, and a ref that is there is not made again.
	if refs, err = remote.Refs(t.Context()); err != nil || refs.Names["refs/heads/remit/x"] != commit {
		t.Fatalf("%v %+v", err, refs)
	}
	err = remote.Push(t.Context(), store, refs, []push.Update{{Ref: "refs/heads/main", Old: zero, New: commit}})
	if reason.CodeOf(err) != reason.ForgeDenied {
		t.Errorf("a branch that exists is reported as new: %v", err)
	}
	if got := run(t, bare, "rev-parse", "main"); got != base {
		t.Error("main has moved")
	}
}

// TestPushLimits: a limit is none of the rights of the token, and says how long to wait.
func TestPushLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status  int
		header  [2]string
		want    reason.Code
		waiting time.Duration
	}{
		"429":                      {http.StatusTooManyRequests, [2]string{"Retry-After", "7"}, reason.ForgeUnreachable, 7 * time.Second},
		"429 without a time":       {http.StatusTooManyRequests, [2]string{}, reason.ForgeUnreachable, 0},
		"403 of a secondary limit": {http.StatusForbidden, [2]string{"Retry-After", "9"}, reason.ForgeUnreachable, 9 * time.Second},
		"403 of the first limit":   {http.StatusForbidden, [2]string{"X-Ratelimit-Remaining", "0"}, reason.ForgeUnreachable, 0},
		"403":                      {http.StatusForbidden, [2]string{}, reason.ForgeDenied, 0},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if c.header[0] != "" {
				w.Header().Set(c.header[0], c.header[1])
			}
			w.WriteHeader(c.status)
		}))
		_, err := push.Remote{URL: server.URL + "/r.git", Client: server.Client()}.Refs(t.Context())
		server.Close()
		var asked interface{ RetryAfter() time.Duration }
		limited := errors.As(err, &asked)
		if reason.CodeOf(err) != c.want || limited != (c.want == reason.ForgeUnreachable) || limited && asked.RetryAfter() != c.waiting {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPushRefused: what the other side does wrong, or does not want, has its code,
// and the token is in no error.
func TestPushRefused(t *testing.T) {
	t.Parallel()
	remote, bare, store, commit := served(t)
	refs, err := remote.Refs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(bare, "hooks", "pre-receive")
	if err := os.MkdirAll(filepath.Dir(hook), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	update := []push.Update{{Ref: "refs/heads/new", Old: git.SHA1.Zero(), New: commit}}
	for name, c := range map[string]struct {
		change func(*push.Remote)
		want   reason.Code
	}{
		"a rule of the repository": {func(*push.Remote) {}, reason.ForgeDenied},
		"another token":            {func(r *push.Remote) { r.Token += "x" }, reason.ForgeDenied},
		"no token":                 {func(r *push.Remote) { r.Token = "" }, reason.ForgeDenied},
		"no repository":            {func(r *push.Remote) { r.URL += "x" }, reason.ForgeDenied},
		"moved":                    {func(r *push.Remote) { r.URL = strings.Replace(r.URL, "/r.git", "/moved", 1) }, reason.ForgeUnknown},
		"away":                     {func(r *push.Remote) { r.URL = "http://127.0.0.1:1/r.git" }, reason.ForgeUnreachable},
		"no address":               {func(r *push.Remote) { r.URL = "http://[" }, reason.ForgeUnreachable},
	} {
		r := remote
		c.change(&r)
		err := r.Push(t.Context(), store, refs, update)
		if reason.CodeOf(err) != c.want || strings.Contains(fmt.Sprint(err), token) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := remote.Push(t.Context(), store, refs, []push.Update{{Ref: "refs/heads/a..b", Old: git.SHA1.Zero(), New: commit}}); err == nil {
		t.Error("a ref that git does not take was sent")
	}
}

// TestPushAnswers: what a server says is taken as data, and a false report is none.
func TestPushAnswers(t *testing.T) {
	t.Parallel()
	line := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	id := strings.Repeat("a", 40)
	head := line("# service=git-receive-pack\n") + "0000"
	good := head + line(id+" refs/heads/main\x00report-status\n") + "0000"
	for name, body := range map[string]string{
		"empty": "", "no service": line(id+" refs/heads/main\n") + "0000", "cut": good[:len(good)-20], "rest": good + "x",
		"a length that is none": head + "+fff", "a length of one": head + "0001", "no id": head + line("x refs/heads/main\x00report-status\n") + "0000",
		"another format": head + line(id+" refs/heads/main\x00report-status object-format=md5\n") + "0000",
	} {
		if _, err := answering(t, "application/x-git-receive-pack-advertisement", body).Refs(t.Context()); reason.CodeOf(err) != reason.ForgeUnreachable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := answering(t, "text/html", good).Refs(t.Context()); reason.CodeOf(err) != reason.ForgeUnknown {
		t.Errorf("a page: %v", err)
	}
	refs, err := answering(t, "application/x-git-receive-pack-advertisement", good).Refs(t.Context())
	if err != nil || refs.Names["refs/heads/main"] != id {
		t.Fatalf("%v %+v", err, refs)
	}
	_, _, store, commit := served(t)
	update := []push.Update{{Ref: "refs/heads/new", Old: git.SHA1.Zero(), New: commit}}
	for name, c := range map[string]struct {
		report string
		want   reason.Code
	}{
		"done":         {line("unpack ok\n") + line("ok refs/heads/new\n") + "0000", ""},
		"another ref":  {line("unpack ok\n") + line("ok refs/heads/old\n") + "0000", reason.ForgeUnreachable},
		"not unpacked": {line("unpack index-pack failed\n") + line("ok refs/heads/new\n") + "0000", reason.ForgeUnreachable},
		"refused":      {line("unpack ok\n") + line("ng refs/heads/new protected branch\n") + "0000", reason.ForgeDenied},
		"cut":          {line("unpack ok\n") + line("ok refs/heads/new\n")[:9], reason.ForgeUnreachable},
		"empty":        {"", reason.ForgeUnreachable},
	} {
		err := answering(t, "application/x-git-receive-pack-result", c.report).Push(t.Context(), store, refs, update)
		if reason.CodeOf(err) != c.want || c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func answering(t *testing.T, kind, body string) push.Remote {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = bytes.NewBuffer(nil).ReadFrom(r.Body) // the request is of no interest
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write([]byte(body)) // the client sees what is missing
	}))
	t.Cleanup(server.Close)
	return push.Remote{URL: server.URL, Client: server.Client()}
}
