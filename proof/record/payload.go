package record

// Run is the payload of RunCreated.
type Run struct {
	RunID          string `json:"run_id"`
	SessionID      string `json:"session_id"`
	RepoRef        string `json:"repo_ref"`
	IssueRef       string `json:"issue_ref"`
	PolicyBundleID string `json:"policy_bundle_id"`
	Owner          string `json:"owner"`
}

// Claim is the payload of IssueClaimed.
type Claim struct {
	ClaimID  string `json:"claim_id"`
	IssueID  string `json:"issue_id"`
	RepoRef  string `json:"repo_ref"`
	Identity string `json:"claim_identity"`
}

// Dispatch is the payload of JobDispatched.
type Dispatch struct {
	JobID          string `json:"job_id"`
	JobType        string `json:"job_type"`
	JobHash        string `json:"job_hash"`
	ProviderID     string `json:"provider_id"`
	Tier           string `json:"tier"`
	Attempt        int64  `json:"attempt"`
	AmountMsats    int64  `json:"amount_msats"`
	AllInMsats     int64  `json:"all_in_msats"`
	ReservationID  string `json:"reservation_id"`
	Eligible       *int64 `json:"eligible_providers"` // how many could have had the job; older receipts lack it
	CapsRevision   int64  `json:"caps_revision"`
	Engine         string `json:"engine"`
	Model          string `json:"model"`
	IdempotencyKey string `json:"idempotency_key"`
}

// Rejection is the payload of JobRejected where no provider could take the job.
type Rejection struct {
	JobType string    `json:"job_type"`
	JobHash string    `json:"job_hash"`
	Reason  string    `json:"reason"`
	Refused []Refusal `json:"refused"`
}

// Refusal is why one provider could not take a job.
type Refusal struct {
	ProviderID string `json:"provider_id"`
	Reason     string `json:"reason"`
}

// Response is the payload of JobCompleted, and of JobFailed where the provider
// handed in a response.
type Response struct {
	JobID          string           `json:"job_id"`
	JobHash        string           `json:"job_hash"`
	ProviderID     string           `json:"provider_id"`
	Attempt        int64            `json:"attempt"`
	Status         string           `json:"status"`
	ResponseSHA256 string           `json:"response_sha256"`
	Artifacts      []map[string]any `json:"artifacts"`
	Runs           []map[string]any `json:"runs"`
	Environment    map[string]any   `json:"environment"`
	DurationMS     int64            `json:"duration_ms"`
	Reason         *string          `json:"reason,omitempty"` // of JobFailed
}

// Ending is the payload of JobFailed and JobRejected where the authority ended
// a job or lost an attempt. An attempt that was lost has the digest of its
// response, a job that ended its type and its state.
type Ending struct {
	JobID          string   `json:"job_id"`
	JobHash        string   `json:"job_hash"`
	JobType        *string  `json:"job_type,omitempty"`
	ProviderID     string   `json:"provider_id"`
	Attempt        int64    `json:"attempt"`
	State          *string  `json:"state,omitempty"`
	Was            string   `json:"was"` // the state before
	Reason         string   `json:"reason"`
	ResponseSHA256 *string  `json:"response_sha256,omitempty"`
	Artifacts      []string `json:"artifacts"` // none
}

// Fallback is the payload of FallbackProviderUsed.
type Fallback struct {
	JobID   string `json:"job_id"`
	JobHash string `json:"job_hash"`
	From    string `json:"from"`
	To      string `json:"to"`
	Reason  string `json:"reason"`
	Attempt int64  `json:"attempt"`
}

// ApprovalUse is the payload of the four receipts about an approval. What the
// contract says in free words is left to the contract.
type ApprovalUse struct {
	ApprovalID     string   `json:"approval_id"`
	ContractSHA256 string   `json:"contract_sha256"`
	RepoRef        string   `json:"repo_ref"`
	Actor          string   `json:"actor"`
	TaskID         string   `json:"task_id"`
	Scope          []string `json:"scope"`
	MutationMode   string   `json:"mutation_mode"`
	RiskClass      string   `json:"risk_class"`
	ExpiresAt      string   `json:"expires_at"`
	Reason         string   `json:"reason,omitempty"`
	RunID          string   `json:"run_id,omitempty"` // of the run that used it up
	// BindingSHA256 is the digest of what the approval is for besides the contract;
	// not there for a contract alone.
	BindingSHA256 string `json:"binding_sha256,omitempty"`
}

// Export is the payload of ForgeUpdated.
type Export struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	PRRef  string `json:"pr_ref"`
}

// NoExport is the payload of ForgeUpdateSkipped.
type NoExport struct {
	Reason string `json:"reason"`
}
