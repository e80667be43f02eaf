-- Purpose: the figures that an autoscaler needs, of one queue or of all
-- Index: runs_queued by lane and stage, runs_worker; runs_set_aside for limits of DAGs
-- Locks: none
SELECT h.queued, h.claimed, h.workers, h.slots, h.busy, h.waiting, h.wanted, h.oldest_ms
  FROM oarlock.scale_hint(@queue::text) h
