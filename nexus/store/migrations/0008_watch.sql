-- When the authority was last there to be asked, and when it last was not. One row.
CREATE TABLE watch (
  id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
  seen_at BIGINT NOT NULL,
  away_from BIGINT NOT NULL,
  away_until BIGINT NOT NULL,
  CHECK (away_from <= away_until)
);
