-- The end of `down 0`. Without CASCADE, so that objects that other users put into these schemas are never dropped.
DROP TABLE IF EXISTS oarlock.schema_history;
DROP SCHEMA IF EXISTS oarlock_river;
DROP SCHEMA IF EXISTS oarlock;
