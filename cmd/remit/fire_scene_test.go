//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"remit/nexus/api"
)

// build starts everything and waits until the providers can be offered jobs.
func (f *fire) build(ctx context.Context) {
	t, repo := f.t, gitRepo(f.t, map[string]string{"hello.txt": "hello\n"})
	data := filepath.Join(f.root, "data")
	for i := range f.size.replicas {
		args := []string{"serve", "--json", "--listen", "127.0.0.1:0", "--data", data, "--rate", "2000"}
		if f.size.store != "" {
			args = append(args, "--store", f.size.store)
		}
		v := newVictim(t, f.root, fmt.Sprintf("nexus-%d", i), args...)
		v.at, v.gone = f.door.add, f.door.remove
		f.nexuses = append(f.nexuses, v)
		f.start(v) // one after the other: the first one makes the administrator
	}
	n := &nexus{t, f.door.url(), f.nexuses[0].first.Token}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * f.size.workers}}
	t.Cleanup(client.CloseIdleConnections)
	token := n.do(n.admin, "POST", "/v1/tokens", "owner", object{"kind": "user", "owner": fireOwner,
		"scopes": []string{"runs:write", "jobs:write", "providers:write", "treasury:write", "read"}}, http.StatusCreated).text("token")
	f.admin = &caller{f.door.url(), n.admin, client, f.answers}
	f.owner = &caller{f.door.url(), token, client, f.answers}
	f.load = &load{owner: f.owner, repo: repo, marker: f.marker}
	if err := f.owner.post(ctx, "/v1/treasury/accounts", "account", object{"limit": fireBudget}, &f.account); err != nil {
		t.Fatal(err)
	}
	if err := f.admin.post(ctx, "/v1/treasury/fund", "fund", object{"account_id": f.account.AccountID, "amount": fireBudget}, &f.account); err != nil {
		t.Fatal(err)
	}
	for i := range f.size.providers {
		f.provider(ctx, n, fmt.Sprintf("rack-%d", i), repo)
	}
}

// provider enrols one and starts its daemon. Its lease is short, so that what a
// kill cost is noticed soon, and long enough for a renewal on a machine that has
// much else to do.
func (f *fire) provider(ctx context.Context, n *nexus, name, repo string) {
	id, joined := n.enrol(fireOwner, name)
	v := newVictim(f.t, f.root, name, "provider", "start", "--unenforced-caps", "--source", repo, "--concurrency", "2", "--lease", "3s", "--heartbeat", "2s")
	if err := os.CopyFS(v.home, os.DirFS(joined)); err != nil { // below the root, where what is left over is found
		f.t.Fatal(err)
	}
	credential := filepath.Join(v.home, "provider", "credential")
	if err := errors.Join(os.Chmod(filepath.Dir(credential), 0o700), os.Chmod(credential, 0o600)); err != nil {
		f.t.Fatal(err)
	}
	if err := f.owner.mutate(ctx, "PUT", "/v1/providers/"+id+"/caps", "two-at-a-time-"+name, object{"cpu_millis": 2000, "memory_mb": 1024,
		"disk_mb": 512, "pids": 256, "timeout_secs": 120, "concurrency": 2, "network": "none"}, nil); err != nil {
		f.t.Fatal(err)
	}
	f.daemons = append(f.daemons, v)
	f.start(v)
	for {
		var p api.Provider
		if err := f.owner.get(ctx, "/v1/providers/"+id, &p); err != nil {
			f.t.Fatal(err)
		}
		if p.Enabled && p.Liveness == "fresh" {
			return
		}
		wait(ctx, again)
	}
}

func (f *fire) start(v *victim) {
	f.t.Helper()
	if err := v.start(); err != nil {
		f.t.Fatal(err)
	}
}

// stop ends everybody as an operator does.
func (f *fire) stop() {
	for _, v := range slices.Concat(f.daemons, f.nexuses) {
		state, ok := v.end(syscall.SIGTERM)
		if !ok || !state.Success() {
			f.t.Errorf("%s did not end cleanly: %v", v.name, state)
		}
		for _, fault := range v.fault {
			f.t.Error(fault)
		}
	}
}

// emptySpools waits until every daemon has handed in, or dropped, what it finished
// while the nexus was away or after its lease was lost: each sign of life tries.
func (f *fire) emptySpools(ctx context.Context) {
	for _, v := range f.daemons {
		for {
			left, err := filepath.Glob(filepath.Join(v.home, "provider", "spool", "*"))
			if err != nil {
				f.t.Fatal(err)
			}
			if len(left) == 0 {
				break
			}
			if !wait(ctx, again) {
				f.t.Fatalf("%s never handed in %q: %v", v.name, left, context.Cause(ctx))
			}
		}
	}
}

// sandboxes counts how often processes of jobs were seen while there was a fire.
func (f *fire) sandboxes(ctx context.Context) (seen int) {
	for wait(ctx, 100*time.Millisecond) {
		if found, err := processesWith(f.marker); err == nil && len(found) > 0 {
			seen++
		}
	}
	return seen
}

// orphans waits until no process names one of the words.
func (f *fire) orphans(what string, words ...string) {
	f.t.Helper()
	ctx, stop := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer stop()
	for {
		left, err := processesWith(words...)
		if err != nil {
			f.t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		if !wait(ctx, again) {
			f.c.Add("orphans", len(left))
			f.t.Errorf("%s: %q", what, left)
			return
		}
	}
}

// command runs one of ours against the authority and decodes what it prints.
func (f *fire) command(ctx context.Context, token string, into any, args ...string) {
	f.t.Helper()
	cmd := commandIn(ctx, f.t.TempDir(), args...)
	cmd.Env = append(cmd.Env, envNexus+"="+f.door.url(), envToken+"="+token)
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	if err != nil {
		f.t.Fatalf("remit %v: %v: %s", args, err, out)
	}
}
