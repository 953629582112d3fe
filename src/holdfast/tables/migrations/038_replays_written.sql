-- A replay of many letters writes its row at every step. No index looks at what is written there any more, so that a version
-- that a held snapshot keeps lies on the row's page and in no index.
-- oldest: 9
-- concurrently
DROP INDEX holdfast_replays_running;
