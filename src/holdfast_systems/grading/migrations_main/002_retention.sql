-- What retention looks for, oldest first, without reading what it keeps.

CREATE INDEX submissions_finished ON submissions (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX processed_callbacks_age ON processed_callbacks (processed_at);
CREATE INDEX refused_callbacks_age ON refused_callbacks (last_at);
