-- Purpose: what the DAG of the README has loaded. Index: none, the table is small. Locks: none.
SELECT string_agg(day || ' ' || rows, ', ') FROM loads
