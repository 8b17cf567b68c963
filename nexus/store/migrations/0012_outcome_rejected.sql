-- A person may refuse a result, too. A check cannot be widened in place.
CREATE TABLE run_outcome_wider (
  run_id TEXT NOT NULL REFERENCES run (id),
  kind TEXT NOT NULL CHECK (kind IN ('accepted', 'rejected', 'reverted', 'failing')),
  note TEXT NOT NULL,
  principal TEXT NOT NULL,
  recorded_at BIGINT NOT NULL,
  PRIMARY KEY (run_id, kind)
);
INSERT INTO run_outcome_wider (run_id, kind, note, principal, recorded_at)
  SELECT run_id, kind, note, principal, recorded_at FROM run_outcome;
DROP TABLE run_outcome;
ALTER TABLE run_outcome_wider RENAME TO run_outcome;
