-- A dispatch looks at those who were heard of lately, however many others there
-- are, of its owner and of the pool.
CREATE INDEX provider_live ON provider (owner, heartbeat_at) WHERE enabled = 1;
CREATE INDEX provider_pool ON provider (class, heartbeat_at) WHERE enabled = 1;
-- The totals and earnings of an owner are added up from the index alone.
CREATE INDEX ledger_reservation_sums ON ledger_reservation (owner, status, payee, amount);
