-- The end of `down 0`. No CASCADE: what somebody else put into these schemas is not ours to drop.
DROP TABLE oarlock.schema_history;
DROP SCHEMA oarlock_river;
DROP SCHEMA oarlock;
