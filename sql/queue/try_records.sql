-- Purpose: writes the rows that a flush writes, for run 0, which never exists; the caller rolls back. The texts fill pages, so
--          that a disk without room for another page refuses them. On tables with row security the statement inserts no row,
--          and shows only that the login may write
-- Index: none
-- Locks: none but the new rows
WITH filler AS MATERIALIZED (
    SELECT n AS step, (SELECT string_agg(md5(m || clock_timestamp()::text), '') FROM generate_series(1, 500) m WHERE n > 0) AS text FROM generate_series(1, 3) n
), attempt AS (
    INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state) SELECT 0, f.step, '', 0, 0, 1, 'lost' FROM filler f WHERE f.text = ''
), note AS (
    INSERT INTO oarlock.events (run_id, kind) SELECT 0, 'trial' FROM filler f WHERE f.text = ''
), run AS (
    UPDATE oarlock.runs r SET inbox = r.inbox WHERE r.run_id = 0
)
INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, reason) SELECT 0, f.step, 'pending', 0, 1, 0, 0, f.text FROM filler f
