-- Purpose: what an autoscaler needs, of one queue or of all
-- Index: runs_queued by lane, runs_worker
-- Locks: none
SELECT h.queued, h.claimed, h.workers, h.slots, h.busy, h.wanted, h.oldest_ms
  FROM oarlock.scale_hint(@queue::text) h
