-- An approval of a run that touches a repository is for one engine, model, commit
-- and target besides its contract. Approvals of the same contract for other work
-- stand beside it.
ALTER TABLE approval ADD COLUMN binding TEXT NOT NULL DEFAULT '';
DROP INDEX approval_open;
CREATE UNIQUE INDEX approval_open ON approval (owner, contract_sha256, binding) WHERE status IN ('requested', 'granted', 'denied');
