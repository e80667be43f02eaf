-- Purpose: whether a worker stands before the gate, in the middle of a fire
-- Index: none
-- Locks: none
SELECT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datname = current_database() AND a.application_name = $1 AND a.wait_event = 'PgSleep')
