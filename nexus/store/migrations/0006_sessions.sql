-- Sessions of browsers. Only the digest of the secret is kept. A session is good
-- as long as its token is; it is ended, and not removed, so that the answer to
-- the request that ended it can be repeated. Times of 0 mean never.
CREATE TABLE session (
  id TEXT NOT NULL PRIMARY KEY,
  token_id TEXT NOT NULL REFERENCES token (id),
  principal TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  ended_at BIGINT NOT NULL,
  CHECK (expires_at > created_at AND seen_at >= created_at)
);

CREATE INDEX session_open ON session (principal, seen_at, id) WHERE ended_at = 0;
CREATE INDEX session_age ON session (expires_at);
