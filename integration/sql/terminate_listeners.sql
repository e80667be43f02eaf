SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'chaos_worker' AND query LIKE '%oarlock listen/%'
