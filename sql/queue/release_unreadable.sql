-- Purpose: gives back, for a while, a claimed run that this version cannot read; at the last try ends it
-- Index: runs_pkey, fences_pkey; at the last try as queue/fail_run
-- Locks: our commit fence; then the run, for at most 250 ms; at the last try as queue/fail_run
SELECT oarlock.release_unreadable(@run, @claim, @epoch, @reason, @pause, @tries)
