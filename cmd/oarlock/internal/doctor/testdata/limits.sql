-- Purpose: limits the connections of this database, and of its login for workers as closely as possible
-- Index: none
-- Locks: none
DO $$
BEGIN
  EXECUTE format('ALTER ROLE %I CONNECTION LIMIT 4', 'app_' || current_database());
  EXECUTE format('ALTER DATABASE %I CONNECTION LIMIT 50', current_database());
END $$
