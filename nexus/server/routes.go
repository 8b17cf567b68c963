package server

import (
	"net/http"
	"slices"
	"strings"

	"remit/nexus/authority"
	"remit/proof/reason"
)

// operationRegister is all that a one-time token can do.
const operationRegister = "registerProvider"

// Scopes of routes beside those of authority.
const (
	scopeNone = ""    // no credential
	scopeAny  = "any" // any credential; the handler decides
)

// route is one operation of openapi.yaml.
type route struct {
	operation string // operationId
	method    string
	path      string
	scope     string
	mutation  bool // has an Idempotency-Key
	always    bool // a mutation that is taken in read-only mode too
	brief     bool // a mutation that does no harm when it is done again: its answer is kept for a minute
	act       action
	special   func(s *Server, w http.ResponseWriter, r *request) error // instead of act: not one JSON answer
}

func query(operation, path, scope string, act action) route {
	return route{operation: operation, method: http.MethodGet, path: path, scope: scope, act: act}
}

func mutation(operation, method, path, scope string, act action) route {
	return route{operation: operation, method: method, path: path, scope: scope, mutation: true, act: act}
}

// idle is a mutation that callers make again and again without anything else to
// do: who repeats it after a minute changes nothing that counts.
func idle(operation, path, scope string, act action) route {
	rt := mutation(operation, http.MethodPost, path, scope, act)
	rt.brief = true
	return rt
}

// table lists every route.
func (s *Server) table() []route {
	const get, post, put = http.MethodGet, http.MethodPost, http.MethodPut
	return []route{
		{operation: "getHealth", method: get, path: "/healthz", special: (*Server).getHealth},
		{operation: "getReady", method: get, path: "/readyz", special: (*Server).getReady},
		{operation: "getPrometheus", method: get, path: "/metrics", special: (*Server).getPrometheus},

		query("getWhoami", "/v1/whoami", scopeAny, getWhoami),
		query("listTokens", "/v1/tokens", authority.ScopeRead, listTokens),
		mutation("createToken", post, "/v1/tokens", scopeAny, createToken),
		mutation("revokeToken", post, "/v1/tokens/{token_id}/revoke", scopeAny, revokeToken),
		// Who looks at frozen books has to log in first.
		{operation: "createSession", method: post, path: "/v1/sessions", mutation: true, always: true, special: (*Server).createSession},
		query("getSession", "/v1/sessions/current", scopeAny, getSession),
		{operation: operationLogout, method: http.MethodDelete, path: "/v1/sessions", scope: scopeAny, mutation: true, always: true, special: (*Server).endSession},

		query("listDevices", "/v1/devices", authority.ScopeRead, listDevices),
		mutation("enrolDevice", post, "/v1/devices", authority.ScopeEnrol, enrolDevice),
		query("listProviders", "/v1/providers", authority.ScopeRead, listProviders),
		mutation(operationRegister, post, "/v1/providers", authority.ScopeEnrol, registerProvider),
		query("getProvider", "/v1/providers/{provider_id}", authority.ScopeRead, getProvider),
		mutation("setCaps", put, "/v1/providers/{provider_id}/caps", authority.ScopeProviders, setCaps),
		mutation("enableProvider", post, "/v1/providers/{provider_id}/enable", authority.ScopeProviders, enableProvider),
		mutation("disableProvider", post, "/v1/providers/{provider_id}/disable", scopeAny, disableProvider),
		mutation("liftQuarantine", post, "/v1/providers/{provider_id}/quarantine/lift", authority.ScopeProviders, liftQuarantine),
		mutation("retireProvider", post, "/v1/providers/{provider_id}/retire", authority.ScopeProviders, retireProvider),
		mutation("deleteProvider", http.MethodDelete, "/v1/providers/{provider_id}", authority.ScopeProviders, deleteProvider),
		idle("heartbeat", "/v1/providers/{provider_id}/heartbeat", authority.ScopeWork, heartbeat),

		mutation("claimIssue", post, "/v1/issues/claim", authority.ScopeRuns, claimIssue),
		query("listRuns", "/v1/runs", authority.ScopeRead, listRuns),
		mutation("createRun", post, "/v1/runs", authority.ScopeRuns, createRun),
		query("getRun", "/v1/runs/{run_id}", authority.ScopeRead, getRun),
		query("listEvents", "/v1/runs/{run_id}/events", authority.ScopeRead, listEvents),
		mutation("appendEvent", post, "/v1/runs/{run_id}/events", authority.ScopeRuns, appendEvent),
		query("listReceipts", "/v1/runs/{run_id}/receipts", authority.ScopeRead, listReceipts),
		{operation: "getRunReplay", method: get, path: "/v1/runs/{run_id}/replay", scope: authority.ScopeRead, special: (*Server).getRunReplay},
		{operation: "getRunReceipt", method: get, path: "/v1/runs/{run_id}/receipt", scope: authority.ScopeRead, special: (*Server).getRunReceipt},
		{operation: "getRunBundle", method: get, path: "/v1/runs/{run_id}/bundle", scope: authority.ScopeRead, special: (*Server).getRunBundle},
		mutation("finishRun", post, "/v1/runs/{run_id}/finish", authority.ScopeRuns, finishRun),
		mutation("cancelRun", post, "/v1/runs/{run_id}/cancel", authority.ScopeRuns, cancelRun),
		mutation("recordOutcome", post, "/v1/runs/{run_id}/outcome", authority.ScopeRuns, recordOutcome),
		{operation: "getRunArtifact", method: get, path: "/v1/runs/{run_id}/artifacts/{digest}", scope: authority.ScopeRead, special: (*Server).getRunArtifact},
		{operation: "putRunArtifact", method: put, path: "/v1/runs/{run_id}/artifacts/{digest}", scope: authority.ScopeRuns, mutation: true, special: (*Server).putRunArtifact},
		query("listJobs", "/v1/runs/{run_id}/jobs", authority.ScopeRead, listJobs),
		mutation("dispatchJob", post, "/v1/runs/{run_id}/jobs", authority.ScopeJobs, dispatchJob),

		mutation("leaseJobs", post, "/v1/jobs/lease", authority.ScopeWork, leaseJobs),
		query("listLeases", "/v1/jobs/leases", authority.ScopeWork, listLeases),
		query("getJob", "/v1/jobs/{job_id}", authority.ScopeRead, getJob),
		idle("renewLease", "/v1/jobs/{job_id}/renew", authority.ScopeWork, renewLease),
		mutation("releaseLease", post, "/v1/jobs/{job_id}/release", authority.ScopeWork, releaseLease),
		idle("appendLog", "/v1/jobs/{job_id}/log", authority.ScopeWork, appendLog),
		{operation: "getArtifact", method: get, path: "/v1/jobs/{job_id}/artifacts/{digest}", scope: authority.ScopeRead, special: (*Server).getArtifact},
		{operation: "putArtifact", method: put, path: "/v1/jobs/{job_id}/artifacts/{digest}", scope: authority.ScopeWork, mutation: true, special: (*Server).putArtifact},
		mutation("completeJob", post, "/v1/jobs/{job_id}/complete", authority.ScopeWork, completeJob),
		mutation("cancelJob", post, "/v1/jobs/{job_id}/cancel", authority.ScopeJobs, cancelJob),
		mutation("settleJob", post, "/v1/jobs/{job_id}/settle", authority.ScopeJobs, settleJob),

		query("listApprovals", "/v1/approvals", authority.ScopeRead, listApprovals),
		mutation("requestApproval", post, "/v1/approvals", authority.ScopeRuns, requestApproval),
		query("getApproval", "/v1/approvals/{approval_id}", authority.ScopeRead, getApproval),
		mutation("decideApproval", post, "/v1/approvals/{approval_id}/decision", authority.ScopeApprove, decideApproval),
		mutation("consumeApproval", post, "/v1/approvals/{approval_id}/consume", authority.ScopeRuns, consumeApproval),

		mutation("openAccount", post, "/v1/treasury/accounts", authority.ScopeTreasury, openAccount),
		mutation("setAccountLimit", put, "/v1/treasury/accounts/{account_id}/limit", authority.ScopeTreasury, setAccountLimit),
		mutation("closeAccount", post, "/v1/treasury/accounts/{account_id}/close", authority.ScopeAdmin, closeAccount),
		mutation("fundAccount", post, "/v1/treasury/fund", authority.ScopeAdmin, fundAccount),
		query("getTreasurySummary", "/v1/treasury/summary", authority.ScopeRead, getTreasurySummary),
		mutation("reconcile", post, "/v1/treasury/reconcile", authority.ScopeAdmin, reconcile),

		query("getMetrics", "/v1/metrics", authority.ScopeRead, s.getMetrics),

		query("listBridgeEvents", "/v1/bridge/events", authority.ScopeRead, listBridgeEvents),
		{operation: "publishBridge", method: post, path: "/v1/bridge/publish", scope: scopeAny, mutation: true, special: (*Server).publishBridge},

		idle("createLaneTicket", "/v1/lanes/tickets", authority.ScopeRead, s.createLaneTicket),
		{operation: "openLane", method: get, path: "/v1/lanes/{topic}", special: (*Server).openLane},
	}
}

// methods are those that somebody may try.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// routes builds the handler. What no route takes is a problem too, not the text
// of net/http.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	allowed := map[string][]string{}
	for _, rt := range s.table() {
		mux.HandleFunc(rt.method+" "+rt.path, s.serve(&rt))
		allowed[rt.path] = append(allowed[rt.path], rt.method)
	}
	for path, some := range allowed {
		refusal := s.serve(&route{operation: "wrongMethod", path: path, special: wrongMethod(strings.Join(some, ", "))})
		for _, method := range methods {
			if !slices.Contains(some, method) {
				mux.HandleFunc(method+" "+path, refusal)
			}
		}
	}
	mux.HandleFunc("/", s.serve(&route{operation: "noRoute", special: noRoute}))
	return mux
}

func noRoute(_ *Server, _ http.ResponseWriter, r *request) error {
	return reason.Errorf(reason.NotFound, "there is nothing at %.200q", r.URL.Path)
}

func wrongMethod(allowed string) func(*Server, http.ResponseWriter, *request) error {
	return func(_ *Server, w http.ResponseWriter, r *request) error {
		w.Header().Set("Allow", allowed)
		return notAllowed{reason.Errorf(reason.RequestInvalid, "%s is not possible here, only %s", r.Method, allowed)}
	}
}

// notAllowed is a request_invalid whose status is 405.
type notAllowed struct{ error }

func (n notAllowed) Unwrap() error { return n.error }
