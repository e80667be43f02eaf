-- Purpose: find out that the connection is alive in both directions; and have the server not end it because it idles,
--          which listening does by nature (somebody may set that for the role at any time, so it is said each time)
-- Index: none
-- Locks: none
SELECT set_config('idle_session_timeout', '0', false)
