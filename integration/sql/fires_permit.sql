-- Purpose: permits so many tries of a fire more
-- Index: none
-- Locks: the one row
UPDATE gate.permitted SET tries = tries + $1
