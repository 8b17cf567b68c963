-- The ledger: double entry, append-only. Money is whole units between 1 and
-- 2^53-1, so that every figure survives canonical JSON. Balances on the account
-- are kept in the transaction that appends the transfer, and audited against it.

CREATE TABLE ledger_account (
  id              TEXT   NOT NULL PRIMARY KEY,
  owner           TEXT   NOT NULL,
  holder          TEXT   NOT NULL,
  unit            TEXT   NOT NULL CHECK (unit IN ('msat', 'microusd')),
  kind            TEXT   NOT NULL CHECK (kind IN ('budget', 'earnings', 'issuance')),
  flags           BIGINT NOT NULL CHECK (flags BETWEEN 0 AND 3),
  spend_limit     BIGINT NOT NULL CHECK (spend_limit BETWEEN 0 AND 9007199254740991),
  debits_pending  BIGINT NOT NULL CHECK (debits_pending BETWEEN 0 AND 9007199254740991),
  debits_posted   BIGINT NOT NULL CHECK (debits_posted BETWEEN 0 AND 9007199254740991),
  credits_pending BIGINT NOT NULL CHECK (credits_pending BETWEEN 0 AND 9007199254740991),
  credits_posted  BIGINT NOT NULL CHECK (credits_posted BETWEEN 0 AND 9007199254740991),
  created_at      BIGINT NOT NULL,
  CHECK (debits_pending + debits_posted <= spend_limit),
  CHECK ((flags & 2) = 0 OR debits_pending + debits_posted <= credits_posted)
);

CREATE INDEX ledger_account_owner ON ledger_account (owner, kind, id);

-- A pending transfer is resolved by at most one row: pending_id is unique.
CREATE TABLE ledger_transfer (
  id             TEXT   NOT NULL PRIMARY KEY,
  kind           TEXT   NOT NULL CHECK (kind IN ('plain', 'pending', 'post', 'void', 'expire')),
  pending_id     TEXT   UNIQUE REFERENCES ledger_transfer (id),
  debit_account  TEXT   NOT NULL REFERENCES ledger_account (id),
  credit_account TEXT   NOT NULL REFERENCES ledger_account (id),
  amount         BIGINT NOT NULL CHECK (amount BETWEEN 1 AND 9007199254740991),
  run_id         TEXT   NOT NULL,
  job_id         TEXT   NOT NULL,
  reason         TEXT   NOT NULL,
  timeout_ms     BIGINT NOT NULL CHECK (timeout_ms >= 0),
  created_at     BIGINT NOT NULL,
  CHECK (debit_account <> credit_account),
  CHECK ((kind IN ('post', 'void', 'expire')) = (pending_id IS NOT NULL)),
  CHECK ((kind = 'pending') = (timeout_ms > 0))
);

CREATE INDEX ledger_transfer_debit ON ledger_transfer (debit_account);
CREATE INDEX ledger_transfer_credit ON ledger_transfer (credit_account);

-- Nobody rewrites history, not even this program.
--sqlite:CREATE TRIGGER ledger_transfer_update BEFORE UPDATE ON ledger_transfer BEGIN SELECT RAISE(ABORT, 'ledger_transfer is append-only'); END;
--sqlite:CREATE TRIGGER ledger_transfer_delete BEFORE DELETE ON ledger_transfer BEGIN SELECT RAISE(ABORT, 'ledger_transfer is append-only'); END;
--postgres:CREATE FUNCTION ledger_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'ledger_transfer is append-only'; END $$;
--postgres:CREATE TRIGGER ledger_transfer_append BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_transfer FOR EACH STATEMENT EXECUTE FUNCTION ledger_append_only();

-- A transfer id that was refused stays refused.
CREATE TABLE ledger_failure (
  transfer_id TEXT   NOT NULL PRIMARY KEY,
  code        TEXT   NOT NULL,
  message     TEXT   NOT NULL,
  failed_at   BIGINT NOT NULL
);

-- The pending transfer as the authority sees it: who asked, for which job, how it ended.
CREATE TABLE ledger_reservation (
  id            TEXT   NOT NULL PRIMARY KEY,
  transfer_id   TEXT   NOT NULL UNIQUE REFERENCES ledger_transfer (id),
  owner         TEXT   NOT NULL,
  payer         TEXT   NOT NULL REFERENCES ledger_account (id),
  payee         TEXT   NOT NULL REFERENCES ledger_account (id),
  amount        BIGINT NOT NULL CHECK (amount BETWEEN 1 AND 9007199254740991),
  run_id        TEXT   NOT NULL,
  job_id        TEXT   NOT NULL,
  status        TEXT   NOT NULL CHECK (status IN ('reserved', 'released', 'withheld')),
  reason        TEXT   NOT NULL,
  passed        BIGINT CHECK (passed IN (0, 1)),
  exit_code     BIGINT,
  resolution_id TEXT   UNIQUE REFERENCES ledger_transfer (id),
  reserved_at   BIGINT NOT NULL,
  expires_at    BIGINT NOT NULL CHECK (expires_at > reserved_at),
  settled_at    BIGINT NOT NULL,
  CHECK ((status = 'reserved') = (resolution_id IS NULL)),
  CHECK ((status = 'reserved') = (settled_at = 0))
);

-- One job of one run holds or has earned money once, whatever the callers do.
CREATE UNIQUE INDEX ledger_reservation_job ON ledger_reservation (run_id, job_id)
  WHERE status <> 'withheld' AND job_id <> '';
CREATE INDEX ledger_reservation_open ON ledger_reservation (reserved_at, id) WHERE status = 'reserved';
CREATE INDEX ledger_reservation_owner ON ledger_reservation (owner, reserved_at, id);

-- At most one row. While it is there, the authority takes no mutations.
CREATE TABLE ledger_freeze (
  id        BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
  reason    TEXT   NOT NULL,
  frozen_at BIGINT NOT NULL
);
