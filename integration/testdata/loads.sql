-- Purpose: the table that the DAG of the README loads, for the login of a worker. Index: none. Locks: none that anybody waits for.
CREATE TABLE loads (day date NOT NULL, rows bigint NOT NULL);
GRANT INSERT ON loads TO oarlock_worker
