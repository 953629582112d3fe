-- What people did, by time, apart from what the kernel writes down itself: a scrape counts the last hour's, however many letters
-- were opened meanwhile.
-- oldest: 9
-- concurrently
CREATE INDEX holdfast_audit_acts ON holdfast_audit (at) WHERE actor <> 'kernel';
