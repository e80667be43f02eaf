-- Purpose: the encoding of the database
-- Index: none
-- Locks: none
SELECT current_setting('server_encoding')
