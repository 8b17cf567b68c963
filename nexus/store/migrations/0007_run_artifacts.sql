-- Content that belongs to a run: what its jobs are executed on, and its sealed bundle.
-- The authority received it and computed the digest itself. A name has one content for ever.
CREATE TABLE run_artifact (
  run_id TEXT NOT NULL REFERENCES run (id),
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  size_bytes BIGINT NOT NULL CHECK (size_bytes >= 0),
  recorded_at BIGINT NOT NULL,
  PRIMARY KEY (run_id, name)
);
