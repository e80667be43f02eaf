-- Templates of older schemas, but for the newest few: another checkout may still use those. $1 is the current one.
SELECT datname FROM pg_catalog.pg_database
WHERE datname LIKE 'oarlock\_template\_%' AND datname <> $1
ORDER BY oid DESC OFFSET 6
