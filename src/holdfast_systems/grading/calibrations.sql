-- name: reviewed
SELECT ai_result, human_result FROM submissions
 WHERE skill = :skill AND human_result IS NOT NULL
 ORDER BY finished_at DESC LIMIT :limit

-- name: active
SELECT version, skill, status, fit, created_at, created_by FROM calibrations WHERE skill = :skill AND status = 'active'

-- name: history
SELECT version, skill, status, fit, created_at, created_by FROM calibrations ORDER BY version DESC LIMIT :limit

-- name: newest
SELECT version, skill, status, fit, created_at, created_by FROM calibrations WHERE skill = :skill
 ORDER BY version DESC LIMIT 1

-- name: retire
UPDATE calibrations SET status = :status WHERE skill = :skill AND status = 'active' RETURNING version

-- name: insert
INSERT INTO calibrations (version, skill, status, fit, created_at, created_by)
SELECT COALESCE(MAX(version), 0) + 1, :skill, :status, :fit, :now, :actor FROM calibrations
RETURNING version, skill, status, fit, created_at, created_by

-- name: restore
UPDATE calibrations SET status = 'active'
 WHERE version = (SELECT MAX(version) FROM calibrations WHERE skill = :skill AND status = 'retired')
RETURNING version, skill, status, fit, created_at, created_by
