-- +goose Up
-- The schemas themselves are made before the first migration, because the history is kept in one of them, and are
-- taken away after the last.
COMMENT ON SCHEMA oarlock IS 'Oarlock: DAG runs. Changed by `oarlock migrate` only';
COMMENT ON SCHEMA oarlock_river IS 'Oarlock: River, for side work. Changed by `oarlock migrate` only';
COMMENT ON TABLE oarlock.schema_history IS 'Migrations that are applied; one row is written by each, in its transaction';

-- +goose Down
COMMENT ON SCHEMA oarlock IS NULL;
