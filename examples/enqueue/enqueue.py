"""Makes a run in the transaction of its order."""

import json
import os

try:
    import psycopg
except ImportError:
    import psycopg2 as psycopg


def place_order(cur, order, item):
    cur.execute("INSERT INTO orders VALUES (%s, %s)", (order, item))
    cur.execute(
        "INSERT INTO oarlock.inbox (dag, params, run_key) VALUES ('report', %s, %s) RETURNING run_id",
        (json.dumps({"order": order}), f"python-order-{order}"),
    )
    return cur.fetchone()[0]


conn = psycopg.connect(os.environ["DATABASE_URL"])
cur = conn.cursor()
cur.execute("CREATE TEMP TABLE orders (id bigint PRIMARY KEY, item text NOT NULL)")
conn.commit()

run = place_order(cur, 1, "oars")
conn.commit()
cur.execute("SELECT state FROM oarlock.run_status(%s)", (run,))
print("committed: run is", cur.fetchone()[0])
conn.commit()

run = place_order(cur, 2, "locks")
conn.rollback()
cur.execute("SELECT (SELECT count(*) FROM orders WHERE id = 2), (SELECT count(*) FROM oarlock.run_status(%s))", (run,))
print("rolled back: %d orders, %d runs" % cur.fetchone())
conn.close()
