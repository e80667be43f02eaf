SELECT count(*)::int FROM pg_stat_activity WHERE usename = $1
