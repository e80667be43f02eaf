-- Purpose: sets the parameters of a session that takes on another job, $1 their names and $2 their values; null: as the server has it built in
-- Index: none: settings in memory
-- Locks: none
SELECT pg_catalog.set_config(p.name, coalesce(p.value, s.boot_val), false)
  FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.text[])) AS p (name, value)
  JOIN pg_catalog.pg_settings s ON s.name OPERATOR(pg_catalog.=) p.name
