-- Purpose: passes on what a worker without room was told of. Sent after the poll that said so in its row
-- Index: workers_pkey, worker_offers_pkey
-- Locks: none
SELECT count(oarlock.wake(u.lane_id, u.rows, 0, u.at)) FROM unnest(@lanes::int[], @rows::bigint[], @ats::timestamptz[]) u (lane_id, rows, at)
