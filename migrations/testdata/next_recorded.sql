-- The next program has recorded its migration.
INSERT INTO oarlock.schema_history (version, programs_from) SELECT max(version) + 1, max(version) FROM oarlock.schema_history;
