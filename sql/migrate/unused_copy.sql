-- Purpose: whether `oarlock migrate adopt --copy` has just been done here: no worker has registered and no run was made since
-- Index: runs_pkey, none for the few workers
-- Locks: none
SELECT i.copied_from IS NOT NULL AND NOT i.adopting
       AND NOT EXISTS (SELECT FROM oarlock.workers w WHERE w.started_at >= i.served_at)
       AND NOT EXISTS (SELECT FROM oarlock.runs r WHERE r.run_id > i.copied_to)
  FROM oarlock.installation i
