-- +goose Up
SELECT 1; -- filled in by the commits that follow

-- +goose Down
SELECT 1;
