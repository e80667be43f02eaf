-- The applied migrations. From each of them on, a program works with the schema if the newest schema version that it knows is
-- programs_from or later. Each migration writes its row in its own transaction.
CREATE TABLE IF NOT EXISTS oarlock.schema_history (
  version bigint PRIMARY KEY,
  programs_from bigint NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  applied_by name NOT NULL DEFAULT session_user
);
