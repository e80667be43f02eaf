SELECT count(*), coalesce(min(id), 0) FROM oarlock.run_list(dag => 'daily-report', state => 'succeeded', rows => 1000)
 WHERE logical_at < '2026-11-02 00:00 Europe/Paris'
