-- Two workers are at work. Of the logins with a limit only theirs may connect to this database; its limit is no connection.
INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel)
SELECT md5(n)::uuid, n, 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 300000, n FROM unnest('{w1,w2}'::text[]) n;
DO $$ BEGIN
  EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC', current_database());
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), 'app_' || current_database());
  EXECUTE format('ALTER ROLE %I CONNECTION LIMIT 0', 'app_' || current_database());
END $$

-- Another login for workers has a limit, too.
DO $$ BEGIN
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), 'more_' || current_database());
  EXECUTE format('ALTER ROLE %I CONNECTION LIMIT 30', 'more_' || current_database());
END $$

-- The other login has no limit any more, and the first login may have one connection.
DO $$ BEGIN
  EXECUTE format('ALTER ROLE %I CONNECTION LIMIT -1', 'more_' || current_database());
  EXECUTE format('ALTER ROLE %I CONNECTION LIMIT 1', 'app_' || current_database());
END $$
