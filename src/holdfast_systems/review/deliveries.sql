-- name: plan_delivery
INSERT INTO review_recipients (changelist_id, recipient, review_version, position, required, effect_key, created_at)
VALUES (:changelist_id, :recipient, :review_version, :position, :required, :effect_key, CAST(:now AS BIGINT))

-- name: deliveries
SELECT recipient, required, effect_key, status, notification_id, notified_at, provider, attempts, last_sent_at,
       error_class, error, superseded_at, superseded_by, budget, sends_before
  FROM review_deliveries_all WHERE changelist_id = :changelist_id AND review_version = :review_version
 ORDER BY position, recipient

-- name: open_budget
-- What was sent up to now belongs to an earlier budget. Once for each job and epoch.
UPDATE review_recipients
   SET budget = :budget,
       sends_before = COALESCE((SELECT f.sends FROM holdfast_effect_status AS f WHERE f.key = review_recipients.effect_key), 0)
 WHERE changelist_id = :changelist_id AND review_version = :review_version
   AND (budget IS NULL OR budget <> :budget)

-- name: forgive
-- One send of each, within this budget, was nobody's fault here.
UPDATE review_recipients SET sends_before = sends_before + 1
 WHERE effect_key IN (SELECT e.key FROM json_each(:keys) AS e) AND budget = :budget

-- name: supersede
UPDATE review_recipients SET superseded_at = CAST(:now AS BIGINT), superseded_by = :superseded_by
 WHERE effect_key = :effect_key AND superseded_at IS NULL

-- name: restore
UPDATE review_recipients SET superseded_at = NULL, superseded_by = NULL, required = :required
 WHERE effect_key = :effect_key

-- name: require
UPDATE review_recipients SET required = :required WHERE effect_key = :effect_key

-- name: untold
-- Required recipients of a version that nobody has evidence of having told.
SELECT COUNT(*) AS deliveries FROM review_deliveries
 WHERE changelist_id = :changelist_id AND review_version = :review_version AND required = 1
   AND (notified_at IS NULL OR notification_id IS NULL)

-- name: sends
SELECT effect_key, attempts FROM review_deliveries_all WHERE effect_key IN (SELECT e.key FROM json_each(:keys) AS e)
