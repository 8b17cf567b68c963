-- A run is found by the Idempotency-Key of the request that made it, for as long
-- as there is the run: stored answers are forgotten, and whoever was killed
-- before the answer came has nothing but the key. '' for runs of before.
-- silence_ms is how long the log of a run without open jobs may be silent until
-- the authority ends the run; 0: as long as the authority says.
ALTER TABLE run ADD COLUMN request_key TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN silence_ms BIGINT NOT NULL DEFAULT 0;
CREATE INDEX run_request_key ON run (owner, request_key) WHERE request_key <> '';
-- Lists go by id, the newest first.
CREATE INDEX run_newest ON run (owner, id);
DROP INDEX run_owner;
-- The runs that have not ended, for whoever looks which of them are silent.
CREATE INDEX run_open ON run (id) WHERE finished_at = 0;
-- Whether a job of a run is open.
CREATE INDEX job_open ON job (run_id) WHERE closed_at = 0;
-- When retention has removed the log, the jobs and the artifacts of a run; 0: they
-- are there. The run stays, and so does its bundle.
ALTER TABLE run ADD COLUMN forgotten_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX run_kept ON run (finished_at, id) WHERE finished_at > 0 AND forgotten_at = 0;
-- Who else has the content that an artifact of such a run has.
CREATE INDEX run_artifact_content ON run_artifact (sha256);
CREATE INDEX job_artifact_content ON job_artifact (sha256);
