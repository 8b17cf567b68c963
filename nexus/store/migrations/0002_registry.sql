-- Devices, the providers on them, and what the authority knows against them.
-- The columns from `successes` on belong to the authority: no request of a
-- device or of its owner writes them, and enrolling again leaves them alone.
CREATE TABLE device (
  id TEXT NOT NULL PRIMARY KEY,
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  roles TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  UNIQUE (owner, name)
);

CREATE UNIQUE INDEX device_fingerprint ON device (owner, fingerprint) WHERE fingerprint <> '';

CREATE TABLE provider (
  id TEXT NOT NULL PRIMARY KEY,
  device_id TEXT NOT NULL UNIQUE REFERENCES device (id),
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  version TEXT NOT NULL,
  class TEXT NOT NULL,
  capabilities TEXT NOT NULL,
  price_msats BIGINT NOT NULL CHECK (price_msats BETWEEN 1 AND 9007199254740991),
  caps TEXT NOT NULL,
  caps_revision BIGINT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('starting', 'running', 'stopping', 'stopped', 'failed')),
  enabled BIGINT NOT NULL CHECK (enabled IN (0, 1)),
  heartbeat_at BIGINT NOT NULL,
  observed TEXT NOT NULL,
  successes BIGINT NOT NULL,
  unverified BIGINT NOT NULL,
  failures BIGINT NOT NULL,
  violations BIGINT NOT NULL,
  quarantined_at BIGINT NOT NULL,
  quarantine_reason TEXT NOT NULL,
  revision BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  CHECK ((quarantined_at = 0) = (quarantine_reason = '')),
  CHECK (enabled = 0 OR quarantined_at = 0)
);

CREATE INDEX provider_owner ON provider (owner, id);
CREATE INDEX provider_open ON provider (class, id) WHERE enabled = 1;

-- One job marks a provider once for each kind of mark.
CREATE TABLE provider_mark (
  provider_id TEXT NOT NULL REFERENCES provider (id),
  job_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('success', 'unverified', 'failure', 'violation')),
  reason TEXT NOT NULL,
  marked_at BIGINT NOT NULL,
  PRIMARY KEY (provider_id, job_id, kind)
);
