package jobs

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"remit/nexus/authority"
	"remit/nexus/store"
)

// Metrics are the figures of one run or of an owner's runs. All are computed
// from the event log; rates are in basis points (10000 = all), and a rate of
// nothing is 0.
type Metrics struct {
	Runs               int64           `json:"runs"`
	Dispatches         int64           `json:"dispatches"` // jobs that somebody wanted to have run
	Filled             int64           `json:"filled"`     // jobs that a provider answered
	FillRateBPS        int64           `json:"fill_rate_bps"`
	DispatchLatency    Latency         `json:"dispatch_latency"` // from the dispatch to the answer
	RunLatency         Latency         `json:"run_latency"`
	ReleasedMsats      int64           `json:"released_msats"`
	EffectiveCostMsats int64           `json:"effective_cost_msats"` // released a verified job
	ProviderBreadth    int64           `json:"provider_breadth"`     // most eligible providers at a dispatch
	Verification       Rate            `json:"verification"`
	ByProvider         map[string]Rate `json:"verification_by_provider"`
	ByEngine           map[string]Rate `json:"verification_by_engine"` // engine/model, of engine runs
	Accepted           int64           `json:"accepted"`               // runs with a released payment
	Reworked           int64           `json:"reworked"`               // of these: reverted or failing later
	ReworkRateBPS      int64           `json:"rework_rate_bps"`
	CapsEnforced       bool            `json:"caps_enforced"` // every answered job has a receipt that its caps held
	CapsReceipts       int64           `json:"caps_receipts"`
	Fallbacks          int64           `json:"fallbacks"`
	WithheldPayments   int64           `json:"withheld_payments"`
}

// Latency are two points of a distribution, in milliseconds.
type Latency struct {
	Median int64 `json:"median_ms"`
	P95    int64 `json:"p95_ms"`
	Count  int64 `json:"count"`
}

// Rate counts verifications.
type Rate struct {
	Verified int64 `json:"verified"`
	Passed   int64 `json:"passed"`
	PassBPS  int64 `json:"pass_bps"`
}

func (r Rate) add(passed bool) Rate {
	r.Verified++
	if passed {
		r.Passed++
	}
	r.PassBPS = bps(r.Passed, r.Verified)
	return r
}

func bps(part, whole int64) int64 {
	if whole == 0 {
		return 0
	}
	return part * 10000 / whole
}

// MaxMetricRuns bounds the runs that one question looks at: the newest ones.
const MaxMetricRuns = 200

// MetricsOfRun computes the figures of one run.
func MetricsOfRun(tx *store.Tx, p authority.Principal, runID string) (Metrics, error) {
	run, err := FindRun(tx, p, runID)
	if err != nil {
		return Metrics{}, err
	}
	return measure(tx, []Run{run})
}

// MetricsOfOwner computes the figures of the newest runs of the principal's owner.
func MetricsOfOwner(tx *store.Tx, p authority.Principal) (Metrics, error) {
	runs, err := Runs(tx, p, "", MaxMetricRuns)
	if err != nil {
		return Metrics{}, err
	}
	return measure(tx, runs)
}

func measure(tx *store.Tx, runs []Run) (Metrics, error) {
	t := newTally()
	for _, run := range runs {
		t.begin()
		for after := int64(0); ; {
			events, err := tx.Events(authority.RunStream(run.ID), after, store.MaxEvents)
			if err != nil {
				return Metrics{}, err
			}
			for _, e := range events {
				t.event(e)
				after = e.Seq
			}
			if len(events) < store.MaxEvents {
				break
			}
		}
		reworked, err := reworked(tx, run)
		if err != nil {
			return Metrics{}, err
		}
		t.end(reworked)
	}
	return t.result(), nil
}

// reworked looks into the account's journal for a bad outcome of a run.
func reworked(tx *store.Tx, run Run) (bool, error) {
	for _, kind := range []string{Reverted, Failing} {
		_, err := tx.EventByKey(authority.AccountStream(run.Owner), "outcome:"+run.ID+":"+kind)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
	}
	return false, nil
}

// tally folds events, run by run. It is pure.
type tally struct {
	m                Metrics
	answers, runs    []int64
	dispatched       map[string]int64 // job hash → when, in this run
	engines          map[string]string
	answered, capped map[string]bool
	started          int64
	released         bool
	allCapped        bool
}

func newTally() *tally {
	return &tally{m: Metrics{ByProvider: map[string]Rate{}, ByEngine: map[string]Rate{}}, allCapped: true}
}

func (t *tally) begin() {
	t.m.Runs++
	t.dispatched, t.engines = map[string]int64{}, map[string]string{}
	t.answered, t.capped = map[string]bool{}, map[string]bool{}
	t.started, t.released = 0, false
}

// fact is what the figures need of any payload.
type fact struct {
	JobHash   string `json:"job_hash"`
	JobID     string `json:"job_id"`
	Provider  string `json:"provider_id"`
	Eligible  int64  `json:"eligible_providers"`
	Amount    int64  `json:"amount_msats"`
	Engine    string `json:"engine"`
	Response  string `json:"response_sha256"`
	Within    bool   `json:"within"`
	AttemptNo int64  `json:"attempt"`
}

func (t *tally) event(e store.Event) {
	switch e.Type {
	case EventStarted:
		if t.started == 0 {
			t.started = e.RecordedAt
		}
	case EventFinished:
		t.runs = append(t.runs, e.RecordedAt-t.started)
	case authority.EventReceipt:
		r, ok := authority.ReadReceipt(e)
		var f fact
		if ok && json.Unmarshal(r.Payload, &f) == nil {
			t.receipt(e, r.Type, f)
		}
	}
}

func (t *tally) receipt(e store.Event, receiptType string, f fact) {
	switch receiptType {
	case authority.JobDispatched:
		t.m.ProviderBreadth = max(t.m.ProviderBreadth, f.Eligible)
		if _, again := t.dispatched[f.JobHash]; !again {
			t.m.Dispatches++
			t.dispatched[f.JobHash], t.engines[f.JobHash] = e.RecordedAt, f.Engine
		}
	case authority.JobRejected:
		if f.JobID == "" { // turned away before there was a job
			t.m.Dispatches++
		}
	case authority.JobCompleted, authority.JobFailed:
		lost := strings.Contains(e.IdempotencyKey, ":lost-")
		if f.Response != "" && !lost && !t.answered[f.JobHash] {
			t.answered[f.JobHash] = true
			t.m.Filled++
			t.answers = append(t.answers, e.RecordedAt-t.dispatched[f.JobHash])
		}
	case authority.CapsEnforced:
		t.m.CapsReceipts++
		t.capped[f.JobHash] = f.Within
	case authority.VerificationPassed, authority.VerificationFailed:
		passed := receiptType == authority.VerificationPassed
		t.m.Verification = t.m.Verification.add(passed)
		t.m.ByProvider[f.Provider] = t.m.ByProvider[f.Provider].add(passed)
		if engine := t.engines[f.JobHash]; engine != "" {
			t.m.ByEngine[engine] = t.m.ByEngine[engine].add(passed)
		}
	case authority.PaymentReleased:
		t.released = true
		t.m.ReleasedMsats += f.Amount
	case authority.PaymentWithheld:
		t.m.WithheldPayments++
	case authority.FallbackProviderUsed:
		t.m.Fallbacks++
	}
}

func (t *tally) end(reworked bool) {
	for hash := range t.answered {
		t.allCapped = t.allCapped && t.capped[hash]
	}
	if t.released {
		t.m.Accepted++
		if reworked {
			t.m.Reworked++
		}
	}
}

func (t *tally) result() Metrics {
	m := t.m
	m.FillRateBPS = bps(m.Filled, m.Dispatches)
	m.ReworkRateBPS = bps(m.Reworked, m.Accepted)
	if m.Verification.Passed > 0 {
		m.EffectiveCostMsats = m.ReleasedMsats / m.Verification.Passed
	}
	m.DispatchLatency, m.RunLatency = latency(t.answers), latency(t.runs)
	m.CapsEnforced = t.allCapped && m.Filled > 0
	return m
}

func latency(values []int64) Latency {
	n := len(values)
	if n == 0 {
		return Latency{}
	}
	slices.Sort(values)
	return Latency{Median: values[(n-1)/2], P95: values[(n-1)*95/100], Count: int64(n)}
}
