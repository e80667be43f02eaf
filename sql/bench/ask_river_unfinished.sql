-- Purpose: whether River has work still. Only benchmarks send it
-- Index: river_job_state_and_finalized_at_index or river_job_prioritized_fetching_index
-- Locks: none
SELECT EXISTS (SELECT FROM oarlock_river.river_job j WHERE j.state = 'running')
    OR EXISTS (SELECT FROM oarlock_river.river_job j WHERE j.state = 'available')
