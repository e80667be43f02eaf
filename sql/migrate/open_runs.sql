-- Purpose: counts open runs, so that `oarlock migrate adopt --copy` can say how many it would end
-- Index: runs_queued, runs_rare
-- Locks: none
SELECT (SELECT count(*) FROM oarlock.runs r WHERE r.state = 'queued') + (SELECT count(*) FROM oarlock.runs r WHERE r.state IN ('running', 'waiting', 'paused'))
