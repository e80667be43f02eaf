-- A binary from the future was here.
INSERT INTO oarlock.schema_history (version) VALUES (9999);
