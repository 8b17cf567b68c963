-- A provider is retired for good and may be deleted after that. Its row stays,
-- since receipts and the ledger name it. A device has one provider, so a retired
-- one moves to a device that stands for nothing, and remembers where it was.
ALTER TABLE provider ADD COLUMN retired_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE provider ADD COLUMN retired_device TEXT NOT NULL DEFAULT '';
ALTER TABLE provider ADD COLUMN deleted_at BIGINT NOT NULL DEFAULT 0;
