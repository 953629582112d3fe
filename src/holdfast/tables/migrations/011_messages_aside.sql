-- How many messages were set aside is asked at every look of an operator; hardly any message ever is.
-- oldest: 9
-- concurrently

CREATE INDEX holdfast_outbox_aside ON holdfast_outbox (seq) WHERE status = 'failed';
