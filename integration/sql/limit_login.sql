-- Purpose: limits the connections of a login, and ends its present ones once the limit is in force
BEGIN;
ALTER ROLE "{login}" CONNECTION LIMIT {limit};
COMMIT;
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '{login}';
