-- Purpose: how the database encodes texts
-- Index: none
-- Locks: none
SELECT current_setting('server_encoding')
