-- The outbox of the mirror. A row is written in the transaction of what it
-- tells; it is signed, and sent to relays, later and by whoever comes first.
-- Of rows with the same d the one with the greatest created_at counts, as on
-- the relays. Nothing but the two classes has a place here.
CREATE TABLE bridge_event (
  id TEXT NOT NULL PRIMARY KEY,
  owner TEXT NOT NULL,
  class TEXT NOT NULL CHECK (class IN ('provider_ad', 'receipt_pointer')),
  kind BIGINT NOT NULL CHECK (kind IN (31990, 30078)),
  d TEXT NOT NULL,
  provider_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  receipt_sha256 TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  tags TEXT NOT NULL,
  content TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('new', 'signed', 'refused')),
  reason TEXT NOT NULL,
  event_id TEXT NOT NULL,
  sig TEXT NOT NULL,
  recorded_at BIGINT NOT NULL,
  UNIQUE (d, created_at),
  CHECK ((class = 'provider_ad') = (kind = 31990)),
  CHECK ((state = 'signed') = (event_id <> '')),
  CHECK ((event_id <> '') = (sig <> '')),
  CHECK ((state = 'refused') = (reason <> ''))
);

CREATE INDEX bridge_event_owner ON bridge_event (owner, id);
CREATE INDEX bridge_event_new ON bridge_event (id) WHERE state = 'new';
CREATE UNIQUE INDEX bridge_event_signed ON bridge_event (event_id) WHERE event_id <> '';

-- The relays that somebody has named, and who talks to each at the moment.
CREATE TABLE bridge_relay (
  url TEXT NOT NULL PRIMARY KEY,
  holder TEXT NOT NULL,
  lease_until BIGINT NOT NULL,
  failures BIGINT NOT NULL,
  next_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL
);

-- How far an event has come with a relay. There is no reference to the relay:
-- it would make every row lock the one that the publishers write to.
CREATE TABLE bridge_delivery (
  event TEXT NOT NULL REFERENCES bridge_event (id),
  relay TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'sent', 'refused', 'superseded')),
  attempts BIGINT NOT NULL,
  error TEXT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (event, relay)
);

CREATE INDEX bridge_delivery_pending ON bridge_delivery (relay, attempts, event) WHERE state = 'pending';

-- The one key that signs, its public half. At most one row.
CREATE TABLE bridge_key (
  id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
  pubkey TEXT NOT NULL,
  created_at BIGINT NOT NULL
);
