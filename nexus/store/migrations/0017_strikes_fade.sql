-- A mark counts while its weight is 1. It has none if it is no strike, if it
-- belongs to an outage that another job's mark counts for (`outage` is that job),
-- if it has faded, and if a quarantine was lifted since.
ALTER TABLE provider_mark ADD COLUMN weight BIGINT NOT NULL DEFAULT 1;
ALTER TABLE provider_mark ADD COLUMN outage TEXT NOT NULL DEFAULT '';
UPDATE provider_mark SET weight = 0 WHERE kind IN ('success', 'unverified');
CREATE INDEX provider_mark_counts ON provider_mark (kind, marked_at) WHERE weight = 1;
