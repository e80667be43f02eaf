-- Which migrations are applied, and which programs work with the schema from then on: those whose own schema version is
-- programs_from or newer. Each migration writes its row in its own transaction.
CREATE TABLE IF NOT EXISTS oarlock.schema_history (
  version bigint PRIMARY KEY,
  programs_from bigint NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  applied_by name NOT NULL DEFAULT session_user
);
