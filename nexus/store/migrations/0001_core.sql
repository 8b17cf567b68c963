-- Streams and their events, stored responses, and credentials.
-- `floor` is the last sequence number that retention has removed, 0 = none.
CREATE TABLE stream (
  name TEXT PRIMARY KEY,
  head BIGINT NOT NULL,
  floor BIGINT NOT NULL,
  CHECK (floor >= 0 AND head >= floor)
);

CREATE TABLE event (
  stream TEXT NOT NULL REFERENCES stream (name),
  seq BIGINT NOT NULL,
  id TEXT NOT NULL UNIQUE,
  type TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  payload TEXT NOT NULL,
  payload_sha256 TEXT NOT NULL,
  recorded_at BIGINT NOT NULL,
  principal TEXT NOT NULL,
  PRIMARY KEY (stream, seq)
);

-- An event without a key is never a repetition of another.
CREATE UNIQUE INDEX event_key ON event (stream, idempotency_key) WHERE idempotency_key <> '';

CREATE TABLE idempotency (
  principal TEXT NOT NULL,
  method TEXT NOT NULL,
  route TEXT NOT NULL,
  key TEXT NOT NULL,
  request_sha256 TEXT NOT NULL,
  status BIGINT NOT NULL,
  content_type TEXT NOT NULL,
  body BLOB NOT NULL,
  etag TEXT NOT NULL,
  location TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (principal, method, route, key)
);

CREATE INDEX idempotency_age ON idempotency (created_at);

-- Only the digest of a secret is kept. Times of 0 mean never.
CREATE TABLE token (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  principal TEXT NOT NULL,
  owner TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  scopes TEXT NOT NULL,
  expires_at BIGINT NOT NULL,
  revoked_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  one_time BIGINT NOT NULL,
  used_at BIGINT NOT NULL
);

CREATE INDEX token_owner ON token (owner, created_at);
