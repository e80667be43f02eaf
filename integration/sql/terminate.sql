SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE usename = 'chaos_worker' ORDER BY random() LIMIT $1) x
