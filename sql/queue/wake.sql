-- Purpose: passes wake-ups on to other workers, from a worker that got them and has no room. The worker sends it after the poll
--          that wrote into its row that it has no room
-- Index: workers_pkey, worker_offers_pkey
-- Locks: none
SELECT count(oarlock.wake(u.lane_id, u.rows, 0, u.at)) FROM unnest(@lanes::int[], @rows::bigint[], @ats::timestamptz[]) u (lane_id, rows, at)
