-- An instructor's own history, the newest first.
CREATE INDEX submissions_reviewer ON submissions (reviewed_by, id) WHERE reviewed_by IS NOT NULL;
