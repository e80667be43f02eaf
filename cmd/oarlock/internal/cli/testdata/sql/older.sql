-- A binary from the past was here, and nobody after it.
DELETE FROM oarlock.schema_history WHERE version > 1;
