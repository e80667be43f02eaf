-- Which migrations are applied. Each writes its row in its own transaction.
CREATE TABLE IF NOT EXISTS oarlock.schema_history (
  version bigint PRIMARY KEY,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  applied_by name NOT NULL DEFAULT session_user
);
