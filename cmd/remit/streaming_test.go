package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"remit/nexus/api"
	"remit/proof/evidence"
	"remit/proof/journal"
)

// spent is what one run took: of the clock, and of the processors with all processes
// that it started.
type spent struct{ wall, cpu time.Duration }

// of is the median of one of the two, with the middle half around it.
func of(runs []spent, which func(spent) time.Duration) (median, low, high time.Duration) {
	var all []time.Duration
	for _, r := range runs {
		all = append(all, which(r))
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)/4], all[len(all)*3/4]
}

// TestStreamingCosts measures what it costs a run to tell its journal while it goes on:
// the same run again and again, in turn under a nexus that takes the journal and under
// one that says no to it, as one of before does. make bench prints it.
func TestStreamingCosts(t *testing.T) {
	pairs, err := strconv.Atoi(os.Getenv("REMIT_STREAMING"))
	if err != nil {
		t.Skip("what streaming costs is measured by make bench")
	}
	requireSandbox(t)
	n, alice := provers(t, func(string) []string { return nil })
	target, err := url.Parse(n.url)
	if err != nil {
		t.Fatal(err)
	}
	var takes atomic.Bool
	var told atomic.Int64
	forward := httputil.NewSingleHostReverseProxy(target)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/journal") {
			if told.Add(1); !takes.Load() {
				w.Header().Set("Content-Type", api.ProblemType)
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"type":"about:blank","title":"Not Found","status":404,"code":"not_found","detail":"there is no such operation","request_id":"r"}`)
				return
			}
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)

	// A fake agent calls a tool for each file that it changes. Nothing passes, so that no
	// proof of a provider is waited for.
	files, patch := map[string]string{}, strings.Builder{}
	for i := range 60 {
		name := fmt.Sprintf("f%03d.txt", i)
		files[name] = "old\n"
		fmt.Fprintf(&patch, "diff --git a/%[1]s b/%[1]s\n--- a/%[1]s\n+++ b/%[1]s\n@@ -1 +1 @@\n-old\n+new\n", name)
	}
	repo, fix := gitRepo(t, files), filepath.Join(t.TempDir(), "fix.patch")
	if err := os.WriteFile(fix, []byte(patch.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	once := func(streamed bool) (took spent, entries int) {
		takes.Store(streamed)
		cmd := exec.CommandContext(t.Context(), program(), "run", "--json", "--repo", repo, "--nexus", proxy.URL, "--title", "Change all", "--allow", "**", "--verify", "false",
			"--engine", "fake", "--fake-patch", fix)
		cmd.Env = append(os.Environ(), "REMIT_HOME="+dir, "HOME="+dir, "REMIT_TOKEN="+alice)
		begin := time.Now()
		out, _ := cmd.Output()
		took = spent{time.Since(begin), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
		var r ran
		if err := json.Unmarshal(out, &r); err != nil || cmd.ProcessState.ExitCode() != 2 || len(r.Block) == 0 || r.Block[0].Code != "verification_failed" {
			t.Fatalf("exit %d, %v: %s", cmd.ProcessState.ExitCode(), err, out)
		}
		log, err := journal.ReadFile(filepath.Join(r.Dir, evidence.JournalFile))
		if err != nil {
			t.Fatal(err)
		}
		return took, len(log.Entries)
	}
	once(true)
	once(false) // now what can be cached is
	var with, without []spent
	var entries int
	asked := [2]int64{}
	for i := range pairs {
		for _, streamed := range []bool{i%2 == 0, i%2 > 0} {
			told.Store(0)
			took, n := once(streamed)
			if streamed {
				with, entries, asked[0] = append(with, took), n, told.Load()
			} else {
				without, asked[1] = append(without, took), told.Load()
			}
		}
	}
	if asked[0] < 2 || asked[1] > 2 {
		t.Fatalf("streaming asks %d times, and a nexus that takes none is asked %d times: this measures nothing", asked[0], asked[1])
	}
	fmt.Printf("a run with %d entries, sent in %d requests; medians of %d, the middle half in brackets\n", entries, asked[0], pairs)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	for _, c := range []struct {
		name  string
		which func(spent) time.Duration
	}{{"user + system", func(s spent) time.Duration { return s.cpu }}, {"clock", func(s spent) time.Duration { return s.wall }}} {
		a, a1, a2 := of(with, c.which)
		b, b1, b2 := of(without, c.which)
		more, percent := ms(a-b), 100*float64(a-b)/float64(b)
		met := "met"
		if more >= 20 || percent >= 3 {
			met = "MISSED"
		}
		fmt.Printf("  %-14s %8.1f ms (%.1f to %.1f) streamed, %8.1f ms (%.1f to %.1f) not: %+.1f ms, %+.1f %%; aimed at < 3 %% and < 20 ms: %s\n",
			c.name, ms(a), ms(a1), ms(a2), ms(b), ms(b1), ms(b2), more, percent, met)
	}
}
