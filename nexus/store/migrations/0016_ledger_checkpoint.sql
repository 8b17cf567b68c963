-- The books are folded from where the last check ended. place orders transfers:
-- of all that will ever be committed with a smaller one than the horizon of a
-- snapshot, none is missing in it. On SQLite it counts; on PostgreSQL it is the
-- transaction's number, and the horizon the oldest one that still runs. Rows of
-- before, and restored ones, have 0.
ALTER TABLE ledger_transfer ADD COLUMN place BIGINT NOT NULL DEFAULT 0;
CREATE INDEX ledger_transfer_place ON ledger_transfer (place);

-- What all transfers below the horizon amount to. At most one row, and a row for
-- each account. next_at is when the next replica may check, whole_at when
-- everything was folded last; 0 is never.
CREATE TABLE ledger_checkpoint (
  id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
  horizon BIGINT NOT NULL,
  next_at BIGINT NOT NULL,
  whole_at BIGINT NOT NULL
);

CREATE TABLE ledger_checkpoint_balance (
  account TEXT NOT NULL PRIMARY KEY,
  debits_pending BIGINT NOT NULL,
  debits_posted BIGINT NOT NULL,
  credits_pending BIGINT NOT NULL,
  credits_posted BIGINT NOT NULL
);
