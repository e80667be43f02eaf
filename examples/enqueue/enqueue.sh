#!/bin/sh
# Does the same as enqueue.sql from a shell. psql keeps no transaction from one call to the next, so each BEGIN … COMMIT
# stands in one call.
set -eu
query() { psql "$DATABASE_URL" -X -q -A -t -v ON_ERROR_STOP=1 "$@"; }

place_order() { # ORDER ITEM END
	query -v order="$1" -v item="$2" -v end="$3" <<'SQL'
CREATE TEMP TABLE orders (id bigint PRIMARY KEY, item text NOT NULL);
BEGIN;
INSERT INTO orders VALUES (:order, :'item');
INSERT INTO oarlock.inbox (dag, params, run_key)
VALUES ('report', jsonb_build_object('order', :order), 'shell-order-' || :order) RETURNING run_id \gset
:end;
SELECT :run_id || ' ' || (SELECT count(*) FROM orders WHERE id = :order);
SQL
}

# shellcheck disable=SC2046 # two words
set -- $(place_order 1 oars COMMIT)
echo "committed: run is $(query -c "SELECT state FROM oarlock.run_status($1)")"

# shellcheck disable=SC2046
set -- $(place_order 2 locks ROLLBACK)
echo "rolled back: $2 orders, $(query -c "SELECT count(*) FROM oarlock.run_status($1)") runs"
