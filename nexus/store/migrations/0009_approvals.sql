-- Who may let a contract be worked on, and what they said. A contract has one
-- approval that is open or denied: a denial is final, and one that was used up or
-- has run out makes room for another.
CREATE TABLE approval (
  id TEXT NOT NULL PRIMARY KEY,
  owner TEXT NOT NULL,
  contract_sha256 TEXT NOT NULL,
  repo_ref TEXT NOT NULL,
  contract TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('requested', 'granted', 'denied', 'consumed', 'expired')),
  requested_by TEXT NOT NULL,
  requested_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  decided_by TEXT NOT NULL,
  decided_at BIGINT NOT NULL,
  reason TEXT NOT NULL,
  run_id TEXT NOT NULL,
  consumed_at BIGINT NOT NULL,
  CHECK ((consumed_at > 0) = (status = 'consumed')),
  CHECK ((consumed_at > 0) = (run_id <> '')),
  CHECK (status NOT IN ('granted', 'denied', 'consumed') OR decided_at > 0),
  CHECK ((decided_at > 0) = (decided_by <> ''))
);

CREATE UNIQUE INDEX approval_open ON approval (owner, contract_sha256) WHERE status IN ('requested', 'granted', 'denied');
CREATE INDEX approval_owner ON approval (owner, id);
