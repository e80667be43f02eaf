-- Purpose: a login may have no more connections than these, and its present ones end once that holds
BEGIN;
ALTER ROLE "{login}" CONNECTION LIMIT {limit};
COMMIT;
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '{login}';
