-- The next program applied a migration with which this program still works.
INSERT INTO oarlock.schema_history (version, programs_from) SELECT max(version) + 1, max(version) FROM oarlock.schema_history;
