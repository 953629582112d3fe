-- Dead letters that somebody acted on, each with the act; and all of them where there is no broker to keep them.

CREATE TABLE grading_letters (
  id TEXT PRIMARY KEY,
  body TEXT NOT NULL,
  is_text SMALLINT NOT NULL CHECK (is_text IN (0, 1)),
  state TEXT NOT NULL CHECK (state IN ('open', 'resent', 'archived')),
  received_at BIGINT NOT NULL,
  acted_at BIGINT,
  acted_by TEXT,
  reason TEXT,
  CHECK ((state = 'open') = (acted_at IS NULL))
);
CREATE INDEX grading_letters_open ON grading_letters (received_at, id) WHERE state = 'open';
