package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// provider is a machine that runs jobs, as its owner has set it up.
type provider struct {
	name    string
	owner   caller
	price   int64
	reserve bool

	id, device string
	home       string
	daemon     *process
}

// registered is a provider as the API shows it.
type registered struct {
	ID        string `json:"provider_id"`
	Device    string `json:"device_id"`
	Owner     string `json:"owner"`
	Price     int64  `json:"price_msats"`
	Reserve   bool   `json:"reserve_pool"`
	Status    string `json:"status"`
	Enabled   bool   `json:"enabled"`
	Liveness  string `json:"liveness"`
	Quarantin bool   `json:"quarantined"`
	Strikes   struct {
		Violations int64 `json:"violations"`
		Failures   int64 `json:"failures"`
		Unverified int64 `json:"unverified"`
	} `json:"strikes"`
}

// caps are the hard limits that the owners set.
func caps() object {
	return object{"cpu_millis": 4000, "memory_mb": 4096, "disk_mb": 8192, "gpus": 0, "pids": 1024, "timeout_secs": 300,
		"concurrency": concurrency, "network": "none"}
}

// concurrency is how many jobs a provider may run at once.
const concurrency = 2

// enrol is step 1: devices, caps, the switch, and presence.
func (v *vignette) enrol(ctx context.Context, s *step) {
	v.fleet = v.nexus.follow(ctx, v.alice, "fleet:user:alice:workers")
	v.enrolClient(ctx, s)
	v.a = &provider{name: "provider-a", owner: v.alice, price: 1000}
	v.b = &provider{name: "provider-b", owner: v.bob, price: 1500, reserve: true}
	for _, p := range []*provider{v.a, v.b} {
		v.join(ctx, s, p)
	}
	v.offByDefault(ctx, s)
	for _, p := range []*provider{v.a, v.b} {
		v.permit(ctx, p)
		must(v.startDaemon(p))
	}
	v.online(ctx, s)
	v.toggle(ctx, s)
}

// enrolClient enrols the machine that the user sits at.
func (v *vignette) enrolClient(ctx context.Context, s *step) {
	const fingerprint = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"
	ask := v.alice.post("/v1/devices", "device-client",
		object{"name": "alice-desktop", "roles": []string{"client"}, "fingerprint": fingerprint})
	d := v.nexus.repeated(ctx, s, "enrolling the client twice with one key is one device", ask, http.StatusCreated, nil).doc()
	s.none("the client's device has an id, its role and its fingerprint",
		wrong(d, members("device_id", some, "roles", items(1), "roles", holds("client"), "fingerprint", fingerprint)))
}

// join registers a provider with a one-time token, as its operator does.
func (v *vignette) join(ctx context.Context, s *step, p *provider) {
	scopes := []string{"providers:enrol"}
	if p.reserve {
		scopes = append(scopes, "providers:pool")
	}
	token := v.newToken(ctx, "registration", p.owner.name, "registration-"+p.name, scopes)
	file := v.keepToken(p.name, token)
	p.home = v.path(p.name)
	args := []string{"provider", "join", "--json", "--nexus", v.nexus.url, "--token-file", file, "--name", p.name, "--price-msats",
		fmt.Sprint(p.price)}
	if p.reserve {
		args = append(args, "--reserve")
	}
	done := v.procs.run(ctx, p.home, args)
	var is registered
	if err := json.Unmarshal(done.stdout, &is); err != nil || done.exit != 0 {
		giveUp("join %s: exit %d: %s", p.name, done.exit, done.stderr)
	}
	p.id, p.device = is.ID, is.Device
	s.ok(is.Owner == p.owner.name && is.Price == p.price && is.Reserve == p.reserve && is.Device != "" && !is.Enabled,
		p.name+" is registered as asked, and provider mode is off", is)
	used := caller{"used registration", token}.post("/v1/providers", "again-"+p.name,
		object{"name": "again", "version": "1", "capabilities": []string{jobType}, "price_msats": 1})
	v.nexus.refused(ctx, s, "the registration token of "+p.name+" works once", used, http.StatusUnauthorized, "token_expired")
}

// offByDefault shows that a provider takes nothing before its owner allows it.
func (v *vignette) offByDefault(ctx context.Context, s *step) {
	on := v.alice.post("/v1/providers/"+v.a.id+"/enable", "enable-early", nil)
	v.nexus.refused(ctx, s, "a provider without caps cannot be enabled", on, http.StatusConflict, "conflict")
	r := v.newRun(ctx, "early")
	v.nexus.refused(ctx, s, "before that no job is dispatched: provider mode is off by default",
		v.dispatch(r, "dispatch-early", order{command: "true"}), http.StatusConflict, "no_eligible_provider")
}

// permit sets caps and enables.
func (v *vignette) permit(ctx context.Context, p *provider) {
	ask := request{as: p.owner, method: http.MethodPut, path: "/v1/providers/" + p.id + "/caps", key: "caps-" + p.name, body: caps()}
	v.nexus.do(ctx, ask, http.StatusOK, nil)
	v.enable(ctx, p, "enable-"+p.name)
}

func (v *vignette) enable(ctx context.Context, p *provider, key string) {
	v.nexus.do(ctx, p.owner.post("/v1/providers/"+p.id+"/enable", key, nil), http.StatusOK, nil)
}

// disable is the request that switches a provider off.
func (v *vignette) disable(p *provider, key string) request {
	return p.owner.post("/v1/providers/"+p.id+"/disable", key, object{"reason": "emergency"})
}

// startDaemon starts the provider's daemon. It leases for a short time, so that
// its loss is noticed soon.
func (v *vignette) startDaemon(p *provider) error {
	var err error
	p.daemon, err = v.procs.start(p.name, p.home, "provider", "start", "--source", filepath.Dir(v.repo), "--lease", leaseTime, "--heartbeat",
		heartbeatTime, "--grace", graceTime, "--concurrency", fmt.Sprint(concurrency))
	return err
}

// A lease that is short beside the vignette, and outlives a busy machine; signs
// of life in between; and what a job gets to end when its daemon is stopped.
const (
	leaseTime     = "5s"
	heartbeatTime = "1s"
	graceTime     = "1s"
)

// credential is what the daemon of a provider shows. The vignette uses it to
// ask what only a provider may ask.
func (p *provider) credential() caller {
	b := need(os.ReadFile(filepath.Join(p.home, "provider", "credential")))
	return caller{p.name, strings.TrimSpace(string(b))}
}

func (v *vignette) look(ctx context.Context, p *provider) (is registered) {
	v.nexus.get(ctx, p.owner, "/v1/providers/"+p.id, &is)
	return is
}

// toggle switches a provider off and on: both act at once.
func (v *vignette) toggle(ctx context.Context, s *step) {
	r := v.newRun(ctx, "toggle")
	v.nexus.repeated(ctx, s, "disabling twice with one key is one disabling", v.disable(v.a, "toggle-off"), http.StatusOK,
		nil)
	v.nexus.refused(ctx, s, "the next dispatch to it is refused",
		v.dispatch(r, "dispatch-toggle", order{command: "true", pin: v.a.id}), http.StatusForbidden, "provider_disabled")
	rejected := r.await(ctx, "JobRejected")
	s.none("one JobRejected: job_type, job_hash, reason", wrong(rejected.Payload, members("job_type", jobType, "job_hash", some,
		"reason", "provider_disabled")))
	v.enable(ctx, v.a, "toggle-on")
	is := v.look(ctx, v.a)
	s.ok(is.Enabled && is.Status == "running", "enabled again, it is running at once", is)
}

// presence is what a fleet lane shows of a provider.
type presence struct {
	Provider  string `json:"provider_id"`
	Device    string `json:"device_id"`
	Owner     string `json:"owner_user_id"`
	Status    string `json:"status"`
	Enabled   bool   `json:"enabled"`
	Heartbeat string `json:"heartbeat_state"`
}

// shows makes a search for an event of a presence lane.
func shows(provider string, fits func(e event, p presence) bool) func(event) bool {
	return func(e event) bool {
		var p presence
		return json.Unmarshal(e.Payload, &p) == nil && p.Provider == provider && fits(e, p)
	}
}

// awaitFresh waits until the presence lane shows a daemon at work. from skips
// what the lane has shown before.
func (v *vignette) awaitFresh(ctx context.Context, l *lane, p *provider, from int64) error {
	_, err := l.until(ctx, "a heartbeat of "+p.name, shows(p.id, func(e event, is presence) bool {
		return e.Seq > from && is.Heartbeat == "fresh" && is.Status == "running" && is.Enabled
	}))
	return err
}

// online records that the registry sees both, and what their lanes have shown.
func (v *vignette) online(ctx context.Context, s *step) {
	must(v.awaitFresh(ctx, v.fleet, v.a, 0))
	bobs := v.nexus.follow(ctx, v.bob, "fleet:user:bob:workers")
	defer bobs.close()
	must(v.awaitFresh(ctx, bobs, v.b, 0))
	for _, p := range []*provider{v.a, v.b} {
		is := v.look(ctx, p)
		s.ok(is.Enabled && is.Liveness == "fresh" && is.Status == "running" && !is.Quarantin, p.name+" is online in the registry", is)
	}
	events, gaps := v.fleet.seen()
	enrolled := firstOf(events, shows(v.a.id, func(_ event, p presence) bool {
		return !p.Enabled && p.Heartbeat == "missing" && p.Device == v.a.device && p.Owner == "alice"
	}))
	beat := firstOf(events, shows(v.a.id, func(_ event, p presence) bool {
		return p.Enabled && p.Heartbeat == "fresh" && p.Status == "running"
	}))
	s.ok(enrolled > 0, "the presence lane has shown the enrolment", len(events), "events")
	s.ok(beat > enrolled, "then a heartbeat", beat, "after", enrolled)
	s.none("by number, without a gap", gaps)
	foreign := firstOf(events, shows(v.b.id, func(event, presence) bool { return true }))
	s.ok(foreign == 0, "and nothing of another user's provider", "event", foreign)
}

// firstOf is the number of the first event that fits, 0 when none does.
func firstOf(events []event, fits func(event) bool) int64 {
	for _, e := range events {
		if fits(e) {
			return e.Seq
		}
	}
	return 0
}
