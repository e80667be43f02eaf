// Makes a run in the transaction of its order.
import { createRequire } from "node:module";

const { Client } = createRequire(import.meta.url)("pg"); // require also looks into NODE_PATH

const db = new Client({ connectionString: process.env.DATABASE_URL });
await db.connect();
await db.query("CREATE TEMP TABLE orders (id bigint PRIMARY KEY, item text NOT NULL)");

async function placeOrder(order, item) {
  await db.query("INSERT INTO orders VALUES ($1, $2)", [order, item]);
  const { rows } = await db.query(
    "INSERT INTO oarlock.inbox (dag, params, run_key) VALUES ('report', $1, $2) RETURNING run_id",
    [{ order }, `node-order-${order}`],
  );
  return rows[0].run_id;
}

await db.query("BEGIN");
let run = await placeOrder(1, "oars");
await db.query("COMMIT");
let { rows } = await db.query("SELECT state FROM oarlock.run_status($1)", [run]);
console.log(`committed: run is ${rows[0].state}`);

await db.query("BEGIN");
run = await placeOrder(2, "locks");
await db.query("ROLLBACK");
({ rows } = await db.query(
  "SELECT (SELECT count(*) FROM orders WHERE id = 2) AS orders, (SELECT count(*) FROM oarlock.run_status($1)) AS runs",
  [run],
));
console.log(`rolled back: ${rows[0].orders} orders, ${rows[0].runs} runs`);
await db.end();
