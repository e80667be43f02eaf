-- Purpose: all pools, or one, with what is taken of them and what waits for them
-- Index: pools_pkey; none of permits, of which all rows are counted: a row for each body under way, and for each free slot of a worker
-- Locks: none
SELECT p.name, p.slots, p.per_key, p.rate, (extract(epoch FROM p.per) * 1000)::bigint, p.burst, p.note,
       p.taken, p.waiting, greatest(extract(epoch FROM clock_timestamp() - p.oldest_since) * 1000, 0)::bigint, p.keys,
       p.closed_by, nullif(p.closed_until, 'infinity'), p.set_by, p.set_at
  FROM oarlock.pool_list(pool => @pool) p
 ORDER BY p.name
