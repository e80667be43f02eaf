-- Purpose: schedules of a fault run, one of each overlap policy
-- Index: schedules_name
-- Locks: none that other sessions wait for
DO $$ BEGIN
    PERFORM oarlock.put_dag('{"name": "beats", "steps": [{"id": "a", "action": "wait", "with": {"duration": "2500ms"}}]}', 'beats', 'beats', '{"action:wait"}');
    PERFORM oarlock.put_schedule('beats', p, every => '2s', overlap_policy => p, catchup => p IN ('all', 'allow'), catchup_max => CASE WHEN p IN ('all', 'allow') THEN 5 END,
                                 jitter => CASE p WHEN 'latest' THEN interval '300 ms' END, params => '{}') FROM unnest('{skip,all,latest,cancel,allow}'::text[]) p;
END $$
