-- Purpose: holds some open runs, as a host application or an administrator may
-- Index: none
-- Locks: those rows
SELECT run_id FROM oarlock.runs WHERE finished_at IS NULL ORDER BY random() LIMIT 3 FOR UPDATE
