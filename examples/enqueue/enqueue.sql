-- Makes a run in the transaction of its order.
\set ON_ERROR_STOP on
\set QUIET on
\pset tuples_only on
\pset format unaligned
SET client_min_messages = warning;
CREATE TEMP TABLE orders (id bigint PRIMARY KEY, item text NOT NULL);

BEGIN;
INSERT INTO orders VALUES (1, 'oars');
INSERT INTO oarlock.inbox (dag, params, run_key) VALUES ('report', '{"order": 1}', 'psql-order-1') RETURNING run_id \gset
COMMIT;
SELECT 'committed: run is ' || state FROM oarlock.run_status(:run_id);

BEGIN;
INSERT INTO orders VALUES (2, 'locks');
INSERT INTO oarlock.inbox (dag, params, run_key) VALUES ('report', '{"order": 2}', 'psql-order-2') RETURNING run_id \gset
ROLLBACK;
SELECT 'rolled back: ' || count(*) || ' orders, ' || (SELECT count(*) FROM oarlock.run_status(:run_id)) || ' runs' FROM orders WHERE id = 2;
