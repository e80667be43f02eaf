-- +goose Up
-- Comments on the schemas. The schemas are made before the first migration, because one of them holds the history of
-- migrations, and are dropped after the last migration was taken back.
COMMENT ON SCHEMA oarlock IS 'Oarlock: DAG runs. Changed by `oarlock migrate` only';
COMMENT ON SCHEMA oarlock_river IS 'Oarlock: River, for side work. Changed by `oarlock migrate` only';
COMMENT ON TABLE oarlock.schema_history IS 'Migrations that are applied; one row is written by each, in its transaction';

-- +goose Down
COMMENT ON SCHEMA oarlock IS NULL;
