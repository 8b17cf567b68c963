-- The caps that the owner of its provider had set when a job was leased: what
-- it may use, and what it is judged by, whatever becomes of the caps meanwhile.
-- '' until then, and for leases of before.
ALTER TABLE job ADD COLUMN caps TEXT NOT NULL DEFAULT '';
