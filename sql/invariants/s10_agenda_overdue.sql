-- Purpose: S10: workers attend to each due item of the agenda. A row here has been due for a minute, though a live worker was
--          there to attend to it
-- Index: agenda_at, up to a minute ago
-- Locks: none
SELECT a.kind, a.id, a.at, a.errors
  FROM oarlock.agenda a
 WHERE a.at < clock_timestamp() - interval '1 minute'
   AND EXISTS (SELECT FROM oarlock.workers w
                WHERE w.state = 'live' AND w.only_run IS NULL AND w.started_at < clock_timestamp() - interval '1 minute'
                  AND w.beat_at > clock_timestamp() - w.ttl_ms * interval '1 millisecond')
