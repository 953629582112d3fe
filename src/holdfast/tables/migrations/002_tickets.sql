-- Single-use tickets of event streams. Only a digest is kept: a copy of the database opens no stream.

CREATE TABLE holdfast_tickets (
  digest TEXT PRIMARY KEY,
  sub TEXT NOT NULL,
  roles TEXT NOT NULL,
  expires_at BIGINT NOT NULL
);
CREATE INDEX holdfast_tickets_expiry ON holdfast_tickets (expires_at);
