-- Purpose: finds out whether the connection works in both directions, and keeps the server from ending it for idleness, since a
--          listening session idles by nature. An administrator may set that timeout for the role at any time, so the statement
--          sets it each time
-- Index: none
-- Locks: none
SELECT set_config('idle_session_timeout', '0', false)
