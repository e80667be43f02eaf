-- Databases of all test processes, dead ones too. Reads pg_database, a small table.
SELECT datname FROM pg_catalog.pg_database WHERE datname LIKE 'oarlock\_test\_%' ORDER BY oid
