-- Runs, the jobs they dispatch, and what providers deliver for them.
CREATE TABLE run (
  id TEXT NOT NULL PRIMARY KEY,
  owner TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('created', 'running', 'canceling', 'succeeded', 'failed', 'canceled')),
  repo_ref TEXT NOT NULL,
  issue_ref TEXT NOT NULL,
  policy_bundle_id TEXT NOT NULL,
  metadata TEXT NOT NULL,
  revision BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  started_at BIGINT NOT NULL,
  finished_at BIGINT NOT NULL,
  CHECK ((finished_at > 0) = (state IN ('succeeded', 'failed', 'canceled')))
);

CREATE INDEX run_owner ON run (owner, created_at, id);

-- Who works on an issue. A claim ends with its run, or at expires_at.
CREATE TABLE issue_claim (
  owner TEXT NOT NULL,
  repo_ref TEXT NOT NULL,
  issue_id TEXT NOT NULL,
  claim_identity TEXT NOT NULL,
  run_id TEXT NOT NULL,
  claimed_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (owner, repo_ref, issue_id)
);

CREATE INDEX issue_claim_run ON issue_claim (run_id) WHERE run_id <> '';

-- What became of an accepted result after its run was sealed.
CREATE TABLE run_outcome (
  run_id TEXT NOT NULL REFERENCES run (id),
  kind TEXT NOT NULL CHECK (kind IN ('accepted', 'reverted', 'failing')),
  note TEXT NOT NULL,
  principal TEXT NOT NULL,
  recorded_at BIGINT NOT NULL,
  PRIMARY KEY (run_id, kind)
);

-- lease_until counts while the state is leased, offer_until while it is queued.
CREATE TABLE job (
  id TEXT NOT NULL PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES run (id),
  owner TEXT NOT NULL,
  type TEXT NOT NULL,
  hash TEXT NOT NULL,
  request TEXT NOT NULL,
  payer TEXT NOT NULL,
  max_price_msats BIGINT NOT NULL,
  pinned BIGINT NOT NULL CHECK (pinned IN (0, 1)),
  state TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'submitted', 'verified', 'settled', 'failed', 'canceled', 'expired')),
  attempt BIGINT NOT NULL,
  provider_id TEXT NOT NULL REFERENCES provider (id),
  tier TEXT NOT NULL,
  fallback_from TEXT NOT NULL,
  reservation_id TEXT NOT NULL,
  amount_msats BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  offer_until BIGINT NOT NULL,
  lease_ttl_ms BIGINT NOT NULL,
  lease_until BIGINT NOT NULL,
  deadline_at BIGINT NOT NULL,
  dispatched_at BIGINT NOT NULL,
  leased_at BIGINT NOT NULL,
  submitted_at BIGINT NOT NULL,
  verified_at BIGINT NOT NULL,
  closed_at BIGINT NOT NULL,
  response TEXT NOT NULL,
  response_sha256 TEXT NOT NULL,
  response_status TEXT NOT NULL,
  outcome TEXT NOT NULL,
  exit_code BIGINT NOT NULL,
  violations TEXT NOT NULL,
  reason TEXT NOT NULL,
  payment TEXT NOT NULL CHECK (payment IN ('', 'released', 'withheld')),
  receipt_sha256 TEXT NOT NULL,
  revision BIGINT NOT NULL,
  UNIQUE (run_id, hash),
  CHECK ((state IN ('settled', 'failed', 'canceled', 'expired')) = (closed_at > 0)),
  CHECK ((closed_at > 0) = (payment <> '')),
  CHECK (payment <> 'released' OR state = 'settled')
);

CREATE INDEX job_offer ON job (provider_id, dispatched_at, id) WHERE state = 'queued';
CREATE INDEX job_held ON job (provider_id, id) WHERE state = 'leased';
CREATE INDEX job_offer_until ON job (offer_until, id) WHERE state = 'queued';
CREATE INDEX job_lease_until ON job (lease_until, id) WHERE state = 'leased';
CREATE INDEX job_submitted ON job (submitted_at, id) WHERE state = 'submitted';
CREATE INDEX job_reservation ON job (reservation_id);

-- Every provider that a job was given to, and how that ended.
CREATE TABLE job_attempt (
  job_id TEXT NOT NULL REFERENCES job (id),
  attempt BIGINT NOT NULL,
  provider_id TEXT NOT NULL,
  reservation_id TEXT NOT NULL,
  amount_msats BIGINT NOT NULL,
  dispatched_at BIGINT NOT NULL,
  leased_at BIGINT NOT NULL,
  ended_at BIGINT NOT NULL,
  ended_as TEXT NOT NULL,
  PRIMARY KEY (job_id, attempt)
);

CREATE TABLE job_log (
  job_id TEXT NOT NULL REFERENCES job (id),
  fence BIGINT NOT NULL,
  position BIGINT NOT NULL,
  stream TEXT NOT NULL,
  body BLOB NOT NULL,
  recorded_at BIGINT NOT NULL,
  PRIMARY KEY (job_id, fence, stream, position)
);

-- Content that the authority received and whose digest it computed itself.
CREATE TABLE job_artifact (
  job_id TEXT NOT NULL REFERENCES job (id),
  fence BIGINT NOT NULL,
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  size_bytes BIGINT NOT NULL,
  recorded_at BIGINT NOT NULL,
  PRIMARY KEY (job_id, fence, name)
);
