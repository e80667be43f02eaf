-- Templates of older schemas, except the newest few, which another checkout may still use. $1 is the current template.
SELECT datname FROM pg_catalog.pg_database
WHERE datname LIKE 'oarlock\_template\_%' AND datname <> $1
ORDER BY oid DESC OFFSET 6
