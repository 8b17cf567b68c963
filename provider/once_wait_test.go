package provider_test

import (
	"fmt"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/provider"
	"remit/work/sandbox"
)

// TestOnceWaitsForAJob starts a machine before there is work for it: it is present
// while it waits, does the one job that it is offered, and says that it has
// stopped. Without an offer it ends after its time.
func TestOnceWaitsForAJob(t *testing.T) {
	t.Parallel()
	driver, err := sandbox.Open(t.Context(), sandbox.Options{})
	if err != nil {
		t.Skipf("NO SANDBOX ON THIS HOST, no job was run: %v", err)
	}
	g := newStage(t, storetest.Open(t, storetest.SQLite(t), store.Options{}))
	state := provider.State{Dir: t.TempDir()}
	if err := state.Save(provider.Identity{Nexus: g.url, ProviderID: g.provider, Name: "one"}, g.worker); err != nil {
		t.Fatal(err)
	}
	d, err := provider.Open(provider.Config{State: state, Driver: driver, Unenforced: true, Version: "test", Sources: []string{g.repo},
		CacheDir: t.TempDir(), Scratch: t.TempDir(), Client: api.Options{Retry: api.Retry{Attempts: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	owner := g.client(g.owner, nil)
	status := func() string {
		return must(api.GetProvider.Get(t.Context(), owner, g.provider))(t).Status
	}
	if ran, err := d.Once(t.Context(), 20*time.Millisecond); ran || err != nil || status() != "stopped" {
		t.Fatalf("without an offer: %v %v, the provider is %s", ran, err, status())
	}
	type end struct {
		ran bool
		err error
	}
	ended := make(chan end, 1)
	go func() {
		ran, err := d.Once(t.Context(), time.Minute)
		ended <- end{ran, err}
	}()
	run := must(api.CreateRun.Do(t.Context(), owner, "r", api.None{}, api.RunRequest{RepoRef: "r"}))(t).RunID
	asked, err := job.SandboxRunRequest{Sandbox: job.Sandbox{Provider: "local", ImageDigest: "host"}, Repo: job.Repo{Source: g.repo}, Commands: []job.Command{{Cmd: "cat a.txt"}}}.Filled()
	if err != nil {
		t.Fatal(err)
	}
	// The dispatch waits as well: a provider may be on its way.
	wait := int64(20)
	made := must(api.DispatchJob.Do(t.Context(), owner, "d", run,
		api.DispatchRequest{JobType: job.SandboxRun, Request: asked.Canonical(), WaitSecs: &wait}))(t)
	if e := <-ended; !e.ran || e.err != nil {
		t.Fatalf("%+v", e)
	}
	done := must(api.GetJob.Get(t.Context(), owner, made.Value.JobID))(t)
	if done.State != api.JobStateSubmitted || status() != "stopped" {
		t.Error(fmt.Sprint("the job is ", done.State, ", the provider ", status()))
	}
}
