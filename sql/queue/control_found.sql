-- Purpose: finds a control after its reply was lost: the newest control like it that this user asked for, and not long ago
-- Index: controls_run
-- Locks: none
SELECT c.id, c.run, c.verb, c.step, c.item, c.args, c.by, c.at, c.decided_at, c.outcome, c.state, c.message
  FROM oarlock.control_list(@run) c
 WHERE c.verb = @verb AND c.step IS NOT DISTINCT FROM @step::text AND c.item IS NOT DISTINCT FROM @item::text
   AND c.args @> @args::text::jsonb AND c.by = oarlock.who() AND c.at >= clock_timestamp() - @since::interval
 ORDER BY c.id DESC LIMIT 1
