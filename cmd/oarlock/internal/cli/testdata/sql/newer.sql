-- A binary from the future was here.
INSERT INTO oarlock.schema_history (version, programs_from) VALUES (9999, 9999);
