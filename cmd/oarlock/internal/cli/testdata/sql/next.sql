-- A migration of the next program was applied that keeps this one.
INSERT INTO oarlock.schema_history (version, programs_from) SELECT max(version) + 1, max(version) FROM oarlock.schema_history;
