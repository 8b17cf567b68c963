-- What lists of runs are filtered by, taken from the run's summary. '' is not
-- known. outcome is the last that was recorded, created_by the principal that made
-- the run. journal_entries is how many entries of the run's journal its log has, and
-- journal_head the hash of the last.
ALTER TABLE run ADD COLUMN verdict TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN engine TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN model TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN blocker TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN outcome TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN journal_entries BIGINT NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN journal_head TEXT NOT NULL DEFAULT '';
UPDATE run SET outcome = COALESCE((SELECT o.kind FROM run_outcome o WHERE o.run_id = run.id ORDER BY o.recorded_at DESC, o.kind LIMIT 1), '');
CREATE INDEX run_by_state ON run (owner, state, id);
CREATE INDEX run_by_verdict ON run (owner, verdict, id) WHERE verdict <> '';
CREATE INDEX run_by_engine ON run (owner, engine, id) WHERE engine <> '';
CREATE INDEX run_by_model ON run (owner, model, id) WHERE model <> '';
CREATE INDEX run_by_blocker ON run (owner, blocker, id) WHERE blocker <> '';
CREATE INDEX run_by_outcome ON run (owner, outcome, id) WHERE outcome <> '';
CREATE INDEX run_by_repo ON run (owner, repo_ref, id);
CREATE INDEX run_by_time ON run (owner, created_at, id);

-- The summary of a run: as its client told it, or made from the sealed bundle that
-- was handed over. findings say where the two, or the journal that was told and the
-- one of the bundle, differ.
CREATE TABLE run_summary (
  run_id TEXT NOT NULL PRIMARY KEY REFERENCES run (id),
  body TEXT NOT NULL,
  source TEXT NOT NULL CHECK (source IN ('told', 'bundle')),
  findings TEXT NOT NULL,
  updated_at BIGINT NOT NULL
);

-- The words that a run is found by: of its summary, its names and its id.
CREATE TABLE run_word (
  run_id TEXT NOT NULL REFERENCES run (id),
  word TEXT NOT NULL,
  owner TEXT NOT NULL,
  PRIMARY KEY (run_id, word)
);
CREATE INDEX run_word_search ON run_word (owner, word, run_id);
