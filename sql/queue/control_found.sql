-- Purpose: finds a control after its reply was lost: the newest control like it that this user asked for, and not long ago
-- Index: controls_run
-- Locks: none
SELECT c.id, c.run, c.verb, c.step, c.item, c.args, c.by, c.at, c.decided_at, c.outcome, c.state, c.message
  FROM oarlock.control_list(@run) c
 WHERE c.verb = @verb AND c.step IS NOT DISTINCT FROM @step::text AND c.item IS NOT DISTINCT FROM @item::text
   AND c.args @> @args::text::jsonb
   -- the database may have converted texts to numbers and booleans, and filled in values that were left out
   AND NOT EXISTS (
        SELECT FROM jsonb_each_text(@outputs::text::jsonb) g, LATERAL (SELECT c.args #> ARRAY['outputs', g.key] AS value, c.args #>> ARRAY['outputs', g.key] AS word) s
         WHERE g.value <> ''
           AND CASE WHEN jsonb_typeof(s.value) = 'number' AND g.value ~ '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$' THEN g.value::numeric <> s.word::numeric
                    ELSE g.value IS DISTINCT FROM s.word END)
   AND c.by = oarlock.who() AND c.at >= clock_timestamp() - @since::interval
 ORDER BY c.id DESC LIMIT 1
