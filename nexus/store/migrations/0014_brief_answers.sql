-- Answers to requests that may be repeated without harm, such as heartbeats, are
-- kept for a minute and not for a week: an idle provider makes two a minute.
ALTER TABLE idempotency ADD COLUMN brief BIGINT NOT NULL DEFAULT 0;
CREATE INDEX idempotency_brief ON idempotency (created_at) WHERE brief = 1;
