SELECT count(*) > 0 FROM pg_stat_replication WHERE state = 'streaming' AND ($1 = '' OR sync_state = $1)
