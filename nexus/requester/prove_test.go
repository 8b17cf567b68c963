package requester

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/reason"
	"remit/proof/record"
)

// nexus is a scripted authority whose jobs are proved at once.
type nexus struct {
	mu     sync.Mutex
	away   map[string]int // by last element of the path: how often it answers 503 first
	refuse map[string]reason.Code
	bodies map[string][]byte // the last one
	asked  map[string]int
}

func (n *nexus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	step := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if strings.HasPrefix(step, "sha256:") {
		step = "artifact"
	}
	body, _ := io.ReadAll(r.Body)
	n.asked[step]++
	n.bodies[step] = body
	code := n.refuse[step]
	if n.away[step] > 0 {
		n.away[step]--
		code = reason.StoreUnavailable
	}
	if code != "" {
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusConflict}[code == reason.StoreUnavailable])
		_ = json.NewEncoder(w).Encode(api.Problem{Code: string(code), Detail: "no"})
		return
	}
	status, answer := http.StatusOK, any(nil)
	at := api.TimeOf(0)
	work := api.Job{JobID: "job_1", State: api.JobStateSubmitted, Request: []byte("{}"), DispatchedAt: at}
	switch step {
	case "runs":
		status, answer = http.StatusCreated, api.Run{RunID: "run_1", Metadata: map[string]string{}}
	case "receipts":
		answer = api.ReceiptPage{Items: []api.Receipt{}}
	case "artifact":
		status, answer = http.StatusCreated, api.RunArtifact{}
	case "jobs":
		status, answer = http.StatusCreated, work
	case "job_1":
		answer = work
	case "settle":
		answer = api.Settlement{VerificationPassed: true, SettlementStatus: record.Released, AmountMsats: 7}
	case "finish":
		answer = api.Run{RunID: "run_1", Metadata: map[string]string{}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func newNexus(t *testing.T) (*nexus, *Requester) {
	t.Helper()
	n := &nexus{away: map[string]int{}, refuse: map[string]reason.Code{}, bodies: map[string][]byte{}, asked: map[string]int{}}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	c, err := api.Connect(server.URL, "rmt_user_x_y", api.Options{Retry: api.Retry{Attempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return n, New(func(context.Context) (*Connection, error) {
		return &Connection{Client: c, Close: func() error { return nil }}, nil
	})
}

func proofOf(waiting func(time.Duration, error)) job.Proof {
	return job.Proof{Tree: strings.Repeat("a", 40), MaxPriceMsats: 9, Waiting: waiting,
		Request: job.SandboxRunRequest{Sandbox: job.Sandbox{Provider: "local", ImageDigest: "host"}, Commands: []job.Command{{Cmd: "true"}}},
		Pack: func(_ context.Context, w io.Writer) (string, error) {
			_, err := io.WriteString(w, "pack")
			return strings.Repeat("b", 40), err
		}}
}

// TestAuthorityAwayAtTheProof: an agent has cost something by then, so the
// requester waits. It does not for ever, and not for a refusal.
func TestAuthorityAwayAtTheProof(t *testing.T) {
	t.Parallel()
	n, q := newNexus(t)
	if _, err := q.Open(t.Context(), job.Claim{Key: "s"}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"artifact", "jobs", "settle"} {
		n.away[step] = 2
	}
	waits := 0
	s, _, err := q.Prove(t.Context(), proofOf(func(time.Duration, error) { waits++ }))
	if err != nil || !s.Passed || s.SettledMsats != 7 || waits == 0 || n.asked["jobs"] != 3 || n.asked["settle"] != 3 || n.asked["artifact"] != 3 {
		t.Errorf("%+v %v, waited %d times, asked %v", s, err, waits, n.asked)
	}
	var sent api.DispatchRequest
	if err := json.Unmarshal(n.bodies["jobs"], &sent); err != nil || api.Value(sent.MaxPriceMsats) != 9 {
		t.Errorf("dispatched with %s", n.bodies["jobs"])
	}

	n.away["jobs"], n.asked["jobs"], q.Patience = 1<<30, 0, 50*time.Millisecond
	if _, _, err := q.Prove(t.Context(), proofOf(nil)); reason.CodeOf(err) != reason.StoreUnavailable || n.asked["jobs"] > 5 {
		t.Errorf("%v after %d requests", err, n.asked["jobs"])
	}
	n.away["jobs"], n.asked["jobs"], n.refuse["jobs"], q.Patience = 0, 0, reason.NoProvider, time.Hour
	if _, _, err := q.Prove(t.Context(), proofOf(nil)); reason.CodeOf(err) != reason.NoProvider || n.asked["jobs"] != 1 {
		t.Errorf("%v after %d requests", err, n.asked["jobs"])
	}
	n.refuse["jobs"], n.away["jobs"] = "", 1<<30
	ctx, stop := context.WithCancel(t.Context())
	if _, _, err := q.Prove(ctx, proofOf(func(time.Duration, error) { stop() })); err == nil || ctx.Err() == nil {
		t.Errorf("a caller that gives up waits on: %v", err)
	}
}

// TestOpenAgain: a run that is known is not made once more, and what the proof
// will take is said when it is made.
func TestOpenAgain(t *testing.T) {
	t.Parallel()
	n, q := newNexus(t)
	claim := job.Claim{Key: "s", MaxPriceMsats: 5, Proof: job.Needs{Capability: job.SandboxRun, MemoryMB: 2048, TimeoutSecs: 300}}
	if _, err := q.Open(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	var made api.RunRequest
	if err := json.Unmarshal(n.bodies["runs"], &made); err != nil || made.Proof == nil || api.Value(made.Proof.MemoryMb) != 2048 || api.Value(made.Proof.MaxPriceMsats) != 5 {
		t.Errorf("%s", n.bodies["runs"])
	}
	claim.RunID = "run_1"
	if _, err := q.Open(t.Context(), claim); err != nil || n.asked["runs"] != 1 {
		t.Errorf("%v, %d runs were made", err, n.asked["runs"])
	}
	n.refuse["finish"] = reason.RunClosed
	if err := q.Close(t.Context(), true, func(io.Writer) error { return nil }); err != nil {
		t.Errorf("a run that another has ended: %v", err)
	}
	n.refuse["finish"] = reason.RunTransition
	if err := q.Close(t.Context(), true, func(io.Writer) error { return nil }); reason.CodeOf(err) != reason.RunTransition {
		t.Error(err)
	}
}
