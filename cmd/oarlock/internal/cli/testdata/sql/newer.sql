-- A newer binary migrated this database.
INSERT INTO oarlock.schema_history (version, programs_from) VALUES (9999, 9999);
