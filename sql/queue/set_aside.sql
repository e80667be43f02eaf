-- Purpose: moves runs of DAGs that are paused or limited from the heads of these lanes into lanes of their own
-- Index: runs_queued, so many entries of each lane; runs_pkey
-- Locks: the runs of these entries FOR NO KEY UPDATE, passing over locked ones; then the new lanes
SELECT oarlock.set_aside($1, $2)
