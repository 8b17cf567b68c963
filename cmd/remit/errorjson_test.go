package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"remit/law/task"
	"remit/proof/reason"
)

// TestUnknownCommandOfAGroup: a group says that it has no such command, and
// which one may be meant.
func TestUnknownCommandOfAGroup(t *testing.T) {
	t.Parallel()
	var groups [][]string
	var look func(c *cobra.Command, path []string)
	look = func(c *cobra.Command, path []string) {
		for _, sub := range c.Commands() {
			if sub.HasSubCommands() {
				groups = append(groups, append(slices.Clone(path), sub.Name()))
				look(sub, append(slices.Clone(path), sub.Name()))
			}
		}
	}
	look(newRoot(), nil)
	if len(groups) < 4 {
		t.Fatalf("%q: the test would prove nothing", groups)
	}
	for _, group := range groups {
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(append(group, "no-such-command"))
		if err := root.ExecuteContext(t.Context()); err == nil || out.Len() > 0 {
			t.Errorf("%q: %v, and printed %.100q", group, err, out.String())
		}
	}
	root := newRoot()
	root.SetArgs([]string{"treasury", "sumary"})
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "did you mean summary?") {
		t.Error(err)
	}
}

func TestWantsJSON(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"": false, "show x": false, "show x --json": true, "--json show x": true, "show --json=true": true, "show --json --json=false": false,
		"run -- agent --json": false, "run --json -- agent": true,
	} {
		if got := wantsJSON(strings.Fields(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

func TestErrorDocument(t *testing.T) {
	t.Parallel()
	one := &reason.Error{Code: reason.NotFound, Message: "gone", File: "f", Line: 3, Field: "a.b", Hint: "look"}
	for name, test := range map[string]struct {
		err  error
		code int
		want string
	}{
		"coded":    {one, 3, `{"error":{"code":"not_found","message":"f:3: a.b: gone (not_found)","hint":"look","file":"f","line":3,"field":"a.b"},"exit_code":3}`},
		"usage":    {usagef("no"), 1, `{"error":{"code":"","message":"no","hint":"see ` + "`remit help`" + `"},"exit_code":1}`},
		"plain":    {errors.New("no\xff"), 1, "{\"error\":{\"code\":\"\",\"message\":\"no\uFFFD\"},\"exit_code\":1}"},
		"problems": {task.Problems{one, one}, 3, `{"error":{"code":"not_found","message":"f:3: a.b: gone (not_found)","hint":"look","file":"f","line":3,"field":"a.b"},"more":[{"code":"not_found","message":"f:3: a.b: gone (not_found)","hint":"look","file":"f","line":3,"field":"a.b"}],"exit_code":3}`},
	} {
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(test.want)); err != nil {
			t.Fatal(err)
		}
		var b, got bytes.Buffer
		if err := printJSON(&b, documentOf(test.err, test.code)); err != nil {
			t.Fatal(err)
		}
		if err := json.Compact(&got, b.Bytes()); err != nil || got.String() != want.String() {
			t.Errorf("%s: %v\n%s\n%s", name, err, got.String(), want.String())
		}
	}
}

// TestStrangerAtTheURL puts something else than a nexus behind the URL: every
// client says so, prints one document with --json, and none falls over.
func TestStrangerAtTheURL(t *testing.T) {
	t.Parallel()
	stranger := func(status int, media, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{media}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	strangers := []string{stranger(200, "text/html", "<html>"), stranger(204, "", ""), stranger(200, "application/json", "{}"), stranger(201, "application/json", "{}")}
	commands := []string{"treasury summary", "treasury reconcile", "bridge publish", "bridge verify --relay ws://127.0.0.1:1 --nexus URL", "approvals",
		"provider join --nexus URL --token-file TOKEN"}
	token := t.TempDir() + "/token"
	if err := os.WriteFile(token, []byte("rmt_registration_x_y"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, url := range strangers {
		for _, line := range commands {
			args := strings.Fields(strings.NewReplacer("URL", url, "TOKEN", token).Replace(line))
			cmd := exec.CommandContext(t.Context(), program(), append(args, "--json")...)
			cmd.Env = append(os.Environ(), "REMIT_HOME="+t.TempDir(), "REMIT_NEXUS="+url, "REMIT_TOKEN=rmt_user_x_y")
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			_ = cmd.Run() // its code is looked at
			var doc errorDocument
			if err := json.Unmarshal(out.Bytes(), &doc); err != nil || cmd.ProcessState.ExitCode() != 3 || doc.Error.Code != reason.StoreUnavailable ||
				doc.ExitCode != 3 || !strings.Contains(doc.Error.Message, url) || strings.Contains(errs.String(), "goroutine") {
				t.Errorf("%s: code %d, %v\n%s%s", line, cmd.ProcessState.ExitCode(), err, out.String(), errs.String())
			}
		}
	}
}

// TestRepositoryName: what no nexus takes is told with the flag that helps.
func TestRepositoryName(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		f  runFlags
		ok bool
	}{
		"a directory":         {runFlags{repo: "/x/y"}, true},
		"a line end":          {runFlags{repo: "/x/a\nb"}, false},
		"named":               {runFlags{repo: "/x/a\nb", repoRef: "ab"}, true},
		"named with a tab":    {runFlags{repo: "/x", repoRef: "a\tb"}, false},
		"longer than allowed": {runFlags{repo: "/x", repoRef: strings.Repeat("a", maxRepoRef+1)}, false},
	} {
		if _, err := test.f.repositoryAt("https://nexus.example"); (err == nil) != test.ok || err != nil && !strings.Contains(err.Error(), "--repo-ref") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
