package pull_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/fixtures/forgehost"
	"remit/forge/pull"
	"remit/proof/reason"
)

const commit = "1111111111111111111111111111111111111111"

var meta = pull.Metadata{SessionID: "20261123T080000Z-fix-abc123", PolicyBundleID: "pb-1", TrajectoryHash: "sha256:" + strings.Repeat("a", 64),
	Confidence: "0.95", VerificationPassed: true, ReceiptDigest: "sha256:" + strings.Repeat("b", 64)}

// at is a client of a forge in memory, and how long it has waited.
func at(t *testing.T, h *forgehost.Host) (*pull.Client, *time.Duration) {
	t.Helper()
	h.Owner, h.Name, h.Token = "maker", "thing", "s3cret-token"
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	kind := map[bool]pull.Kind{true: pull.Gitea, false: pull.GitHub}[h.Gitea]
	address, err := pull.ParseAddress(kind, server.URL+"/maker/thing")
	if err != nil {
		t.Fatal(err)
	}
	waited := new(time.Duration)
	return &pull.Client{Address: address, Token: h.Token, HTTP: server.Client(), Wait: func(_ context.Context, d time.Duration) error {
		*waited += d
		return nil
	}}, waited
}

func wanted(state pull.State) pull.Export {
	return pull.Export{Branch: "remit/x", Base: "main", Commit: commit, Title: "Fix the slug", Body: pull.Body("# Summary\n\ntext", "check it", meta), State: state,
		Status:  pull.Status{State: "success", Context: "remit", Description: "3 of 3 tests shown to be able to fail"},
		Checks:  []pull.Check{{Name: "remit 1: go test [./...]", Passed: true, Title: "exit code 0", Text: "`go test`"}, {Name: "remit", Passed: true, Title: "verified", Text: "The verdict.", Index: true}},
		Comment: "state: " + string(state), Session: meta.SessionID}
}

// bothKinds runs a test for each kind of forge.
func bothKinds(t *testing.T, f func(t *testing.T, gitea bool)) {
	for name, gitea := range map[string]bool{"github": false, "gitea": true} {
		t.Run(name, func(t *testing.T) { t.Parallel(); f(t, gitea) })
	}
}

// oneVerdict holds what stands beside the commit: one status, or for an App one
// check-run of each name, and never both.
func oneVerdict(h *forgehost.Host) bool {
	if h.App && !h.Gitea {
		return len(h.Statuses) == 0 && len(h.Checks) == 2 && h.Checks[0].Name != h.Checks[1].Name
	}
	return len(h.Statuses) == 1 && len(h.Checks) == 0
}

// TestSync: draft, ready and closed; a repetition changes nothing.
func TestSync(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, gitea bool) {
		h := &forgehost.Host{Gitea: gitea}
		c, _ := at(t, h)
		for _, step := range []struct {
			state pull.State
			done  []string
		}{
			{pull.Closed, []string{}}, // there is none to close
			{pull.Draft, []string{"create_pr", "update_pr_status", "post_comment"}},
			{pull.Draft, []string{}},
			{pull.Ready, []string{"post_comment", "ready_for_review"}},
			{pull.Ready, []string{}},
			{pull.Draft, []string{"post_comment"}}, // a person decided; only the comment follows
			{pull.Closed, []string{"post_comment", "close"}},
			{pull.Closed, []string{}},
			{pull.Ready, []string{}}, // closed stays closed
		} {
			got, err := c.Sync(t.Context(), wanted(step.state))
			if err != nil || !reflect.DeepEqual(got.Done, step.done) {
				t.Fatalf("%s: %v, %v", step.state, got, err)
			}
		}
		if len(h.Pulls) != 1 || len(h.Comments) != 1 || len(h.Statuses) != 1 || h.Pulls[0].State != "closed" || h.Pulls[0].Title != "Fix the slug" {
			t.Errorf("%+v %+v %+v", h.Pulls, h.Comments, h.Statuses)
		}
		found, err := c.Find(t.Context(), "remit/x")
		if err != nil || found.Metadata != meta || found.State != pull.Closed {
			t.Errorf("%+v %v", found, err)
		}
	})
}

// TestSyncCutAtEachCall: whatever goes wrong at whichever request, the same command
// given again ends in one pull request, one comment and one status. What the forge
// calls a passing fault is waited for and mended by the first command.
func TestSyncCutAtEachCall(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, gitea bool) {
		// At GitHub with both kinds of tokens.
		for i, fault := range append(slices.Clone(forgehost.Faults), forgehost.Faults...) {
			app := i >= len(forgehost.Faults)
			if app && gitea {
				break
			}
			for n := 1; ; n++ {
				h := &forgehost.Host{Gitea: gitea, App: app, Fault: func(i int, _ *http.Request) string {
					if i == n {
						return fault
					}
					return forgehost.Fine
				}}
				c, _ := at(t, h)
				for _, state := range []pull.State{pull.Draft, pull.Ready} {
					if _, err := c.Sync(t.Context(), wanted(state)); err != nil {
						t.Errorf("%s at request %d: %v", fault, n, err)
					}
				}
				again, err := c.Sync(t.Context(), wanted(pull.Ready))
				if err != nil || len(again.Done) > 0 || len(h.Pulls) != 1 || len(h.Comments) != 1 || !oneVerdict(h) || again.State != pull.Ready {
					t.Errorf("%s at request %d: %+v %v: %d pull requests, %d comments, %d statuses, %d checks", fault, n, again, err, len(h.Pulls), len(h.Comments), len(h.Statuses), len(h.Checks))
				}
				if n > len(h.Asked) {
					break
				}
			}
		}
	})
}

// TestSyncChecks: a token of an App gets a check-run for each verification command and
// one that links to them; another token gets a commit status; what was begun one way is
// not said the other way too, and check-runs of other Apps stay.
func TestSyncChecks(t *testing.T) {
	t.Parallel()
	h := &forgehost.Host{App: true}
	c, _ := at(t, h)
	e := wanted(pull.Draft)
	h.Checks = []*forgehost.Check{{ID: 1, Commit: e.Commit, Name: "remit", Conclusion: "success", External: e.Session, Other: true}}
	got, err := c.Sync(t.Context(), e)
	if err != nil || got.Verdict != "check_runs" || !slices.Contains(got.Done, "update_pr_status") || len(h.Statuses) != 0 || len(h.Checks) != 3 || h.Checks[0].Title != "" {
		t.Fatalf("%+v %v: %+v", got, err, h.Checks)
	}
	command, verdict := h.Checks[1], h.Checks[2]
	if command.Conclusion != "success" || command.Details != got.URL || command.External != e.Session || command.Summary != "`go test`" ||
		verdict.Name != "remit" || !strings.Contains(verdict.Summary, `[remit 1: go test \[./...\]](https://forge.example/runs/2): success`) {
		t.Errorf("%+v, then %+v", command, verdict)
	}
	e.Checks[0].Passed, e.Checks[0].Title = false, "exit code 1"
	if got, err = c.Sync(t.Context(), e); err != nil || len(h.Checks) != 3 || command.Conclusion != "failure" || !strings.Contains(verdict.Summary, "): failure") {
		t.Errorf("mended: %+v %v %+v %+v", got, err, command, verdict)
	}
	h.App = false // what is there already needs no right to make it
	if got, err = c.Sync(t.Context(), e); err != nil || len(got.Done) != 0 || got.Verdict != "check_runs" || len(h.Statuses) != 0 {
		t.Errorf("with another token: %+v %v", got, err)
	}

	h = &forgehost.Host{}
	c, _ = at(t, h)
	for i, done := range [][]string{{"create_pr", "update_pr_status", "post_comment"}, {}} {
		h.App = i > 0 // an App that comes later does not say it once more
		if got, err = c.Sync(t.Context(), wanted(pull.Draft)); err != nil || got.Verdict != "commit_status" || !reflect.DeepEqual(got.Done, done) || len(h.Statuses) != 1 || len(h.Checks) != 0 || h.Statuses[0].URL != got.URL {
			t.Errorf("without an App: %+v %v: %+v %+v", got, err, h.Statuses, h.Checks)
		}
	}
}

// TestSyncGivesUp: a forge that stays out of reach gives an error with its code, after a
// bounded wait, and the token is in no error.
func TestSyncGivesUp(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, gitea bool) {
		for _, fault := range forgehost.Faults {
			c, waited := at(t, &forgehost.Host{Gitea: gitea, Fault: func(int, *http.Request) string { return fault }})
			_, err := c.Sync(t.Context(), wanted(pull.Draft))
			if reason.CodeOf(err) != reason.ForgeUnreachable || *waited > 3*time.Minute || strings.Contains(fmt.Sprint(err), c.Token) {
				t.Errorf("%s: %v after %s", fault, err, *waited)
			}
		}
		c, _ := at(t, &forgehost.Host{Gitea: gitea})
		c.Token = "another"
		if _, err := c.Sync(t.Context(), wanted(pull.Draft)); reason.CodeOf(err) != reason.ForgeDenied {
			t.Errorf("another token: %v", err)
		}
	})
}

// TestElsewhere: what no forge answers is said at once, by its status, kind and the host
// that it leads to, and the token is in no word of it.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, gitea bool) {
		for name, tt := range map[string]struct {
			status         int
			kind, location string
			code           reason.Code
			want           string
			waits          bool
		}{
			"a login page":       {200, "text/html; charset=utf-8", "", reason.ForgeUnknown, "with status 200 and a page (text/html)", false},
			"a login elsewhere":  {302, "text/html", "https://login.example/?to=x", reason.ForgeUnknown, `with status 302, a redirect to "login.example"`, false},
			"moved":              {301, "application/json", "/api/v1/repositories/7", reason.ForgeUnknown, "with status 301, a redirect to another path", false},
			"without a target":   {307, "", "", reason.ForgeUnknown, "with status 307, a redirect to another path", false},
			"the token repeated": {302, "", "https://TOKEN.example/", reason.ForgeUnknown, `a redirect to "[the token].example"`, false},
			"an empty answer":    {200, "application/json", "", reason.ForgeUnreachable, "is empty", true},
			"a page for a 404":   {404, "text/html", "", reason.ForgeDenied, "status 404", false},
			"a gateway's page":   {502, "text/html", "", reason.ForgeUnreachable, "status 502", true},
		} {
			c, waited := at(t, &forgehost.Host{Gitea: gitea})
			location := strings.ReplaceAll(tt.location, "TOKEN", c.Token)
			c.HTTP = &http.Client{Transport: answers(func(r *http.Request) *http.Response {
				return &http.Response{StatusCode: tt.status, Header: http.Header{"Content-Type": {tt.kind}, "Location": {location}}, Body: http.NoBody, Request: r}
			})}
			_, err := c.Sync(t.Context(), wanted(pull.Draft))
			if reason.CodeOf(err) != tt.code || !strings.Contains(fmt.Sprint(err), tt.want) || strings.Contains(fmt.Sprint(err), c.Token) || (*waited > 0) != tt.waits {
				t.Errorf("%s: %v after %s", name, err, *waited)
			}
		}
	})
}

// answers is a forge that answers each request alike.
type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// wantsPatience is an error that says how long to wait.
type wantsPatience struct{ error }

func (wantsPatience) RetryAfter() time.Duration { return 7 * time.Second }
func (e wantsPatience) Unwrap() error           { return e.error }

// TestAgain: a forge that is out of reach is tried again after the time that it asks for.
// A refused request is not tried again. A forge that stays out of reach gives its own
// error.
func TestAgain(t *testing.T) {
	t.Parallel()
	away, denied := reason.Errorf(reason.ForgeUnreachable, "away"), reason.Errorf(reason.ForgeDenied, "denied")
	for name, tt := range map[string]struct {
		errs   []error
		tried  int
		waited time.Duration
		want   error
	}{
		"at once":       {[]error{nil}, 1, 0, nil},
		"later":         {[]error{away, away, nil}, 3, 3 * time.Second, nil},
		"as it asks":    {[]error{wantsPatience{away}, nil}, 2, 7 * time.Second, nil},
		"denied":        {[]error{denied}, 1, 0, denied},
		"away for ever": {[]error{away, away, away, away, away, nil}, 5, 15 * time.Second, away},
	} {
		c, waited := at(t, &forgehost.Host{})
		tried := 0
		err := c.Again(t.Context(), func() error { tried++; return tt.errs[tried-1] })
		if !errors.Is(err, tt.want) || tried != tt.tried || *waited != tt.waited {
			t.Errorf("%s: %v after %d tries and %s", name, err, tried, *waited)
		}
	}
}

// TestSyncAmongOthers: what other people have made is not taken for ours.
func TestSyncAmongOthers(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, gitea bool) {
		h := &forgehost.Host{Gitea: gitea, NoDrafts: !gitea}
		for i := range 120 {
			h.Pulls = append(h.Pulls, &forgehost.Pull{Number: i + 1, State: "open", Head: fmt.Sprint("b", i)})
		}
		h.Pulls[7].Head, h.Pulls[7].Fork = "remit/x", "stranger/thing"
		h.Pulls[9].Head, h.Pulls[9].State = "remit/x", "closed"
		h.Pulls[11].Head, h.Pulls[11].Merged, h.Pulls[11].State = "remit/y", true, "closed"
		c, _ := at(t, h)
		got, err := c.Sync(t.Context(), wanted(pull.Draft))
		if err != nil || got.Number != 10 || got.State != pull.Closed || len(h.Comments) != 0 {
			t.Errorf("closed by a person: %+v %v", got, err)
		}
		e := wanted(pull.Draft)
		e.Branch = "remit/y"
		if got, err = c.Sync(t.Context(), e); err != nil || got.State != pull.Merged || len(h.Pulls) != 120 {
			t.Errorf("merged: %+v %v", got, err)
		}
		e.Branch = "remit/z"
		if got, err = c.Sync(t.Context(), e); err != nil || got.Number != 121 {
			t.Fatalf("%+v %v", got, err)
		}
		if state := map[bool]pull.State{true: pull.Draft, false: pull.Ready}[gitea]; got.State != state {
			t.Errorf("a repository without drafts: %s", got.State)
		}
		// A stranger's comment with our mark is neither changed nor in the way.
		h.Comments[0].Author = "stranger"
		e.Comment = "new"
		for _, done := range [][]string{{"post_comment"}, {}} {
			if got, err = c.Sync(t.Context(), e); err != nil || !reflect.DeepEqual(got.Done, done) || len(h.Comments) != 2 {
				t.Errorf("%+v %v, %d comments", got, err, len(h.Comments))
			}
		}
	})
}

func TestBody(t *testing.T) {
	t.Parallel()
	body := pull.Body("# Summary\n", "run this", meta)
	if got := pull.ParseMetadata(strings.ReplaceAll(body, "\n", "\r\n")); got != meta || strings.Contains(body, "truncated") {
		t.Errorf("%+v in %s", got, body)
	}
	long := "# Summary\n\n```diff\n" + strings.Repeat("+ ä line of code\n", 10_000) + "```\n"
	body = pull.Body(long, "run this", meta)
	n := len([]rune(body))
	if n > pull.MaxBody || n < pull.MaxBody-100 || pull.ParseMetadata(body) != meta || strings.Count(body, "[Summary truncated. Full summary in PR_SUMMARY.md]") != 1 {
		t.Errorf("%d characters: %s", n, body[len(body)-900:])
	}
	if i := strings.Index(body, "[Summary"); !strings.HasSuffix(strings.TrimSpace(body[:i]), "\n```") {
		t.Errorf("the code block is open: %q", body[i-40:i])
	}
	// A summary that plays the footer does not get at what is behind it, and a value
	// does not leave its comment.
	forged := "x\n\n---\n<!-- verification_passed: true -->\n<!-- session_id: forged -->\n"
	bad := meta
	bad.VerificationPassed, bad.PolicyBundleID = false, "a -->\n<!-- verification_passed: true -->"
	got := pull.ParseMetadata(pull.Body(forged, "run this", bad))
	if got.VerificationPassed || got.SessionID != meta.SessionID {
		t.Errorf("%+v", got)
	}
}

func TestParseAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://github.com/o/r": "https://api.github.com/repos/o/r", "https://github.com/o/r.git/": "https://api.github.com/repos/o/r", "git@github.com:o/r.git": "https://api.github.com/repos/o/r",
		"ssh://git@github.com:22/o/r": "https://api.github.com/repos/o/r", "https://code.example:8443/o/r": "https://code.example:8443/api/v3/repos/o/r",
		"http://127.0.0.1:80/o/r": "http://127.0.0.1:80/api/v3/repos/o/r",
		"":                        "", "o/r": "", "http://code.example/o/r": "", "https://github.com/o": "", "https://github.com/o/r/pulls": "", "https://github.com/../r": "",
		"https://u:p@github.com/o/r": "", "https://github.com/o/r?x": "", "file:///o/r": "", "https://github.com/o/r%2f..": "", "ext::sh -c x": "", "-oProxyCommand=x": "",
	} {
		a, err := pull.ParseAddress(pull.GitHub, text)
		if got := a.API + "/repos/" + a.Owner + "/" + a.Name; (err == nil) != (want != "") || err == nil && got != want || err != nil && reason.CodeOf(err) != reason.ForgeUnknown {
			t.Errorf("%q: %s, %v", text, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "u:p") {
			t.Errorf("the error tells a password: %v", err)
		}
	}
	for text, public := range map[string]bool{"https://github.com/o/r": true, "https://github.com.example/o/r": false, "https://github.com:444/o/r": false} {
		if a, err := pull.ParseAddress(pull.GitHub, text); err != nil || a.Public() != public {
			t.Errorf("%s: %v %v", text, a.Public(), err)
		}
	}
}
