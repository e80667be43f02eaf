-- The end of `down 0`. No CASCADE: what somebody else put into these schemas is not ours to drop.
DROP TABLE IF EXISTS oarlock.schema_history;
DROP SCHEMA IF EXISTS oarlock_river;
DROP SCHEMA IF EXISTS oarlock;
