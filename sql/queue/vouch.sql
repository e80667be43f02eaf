-- Purpose: a worker that registers, or connects again, notes that the installation is served here
-- Index: installation_pkey
-- Locks: the installation's row
SELECT oarlock.vouch()::text
