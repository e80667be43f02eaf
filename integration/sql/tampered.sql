-- Purpose: rows that were changed or deleted although such rows are only added
-- Index: none
-- Locks: none
SELECT what, run_id, count(*) FROM chaos.tampered GROUP BY what, run_id ORDER BY run_id, what
