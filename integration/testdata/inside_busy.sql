-- Whether step a of inside.yaml is inside its transaction.
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'DO %' AND wait_event = 'PgSleep');
