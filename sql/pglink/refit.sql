-- Purpose: sets the parameters of a session that takes on another job: $1 are their names and $2 their values. A null sets the
--          default that is built into the server
-- Index: none: settings in memory
-- Locks: none
SELECT pg_catalog.set_config(p.name, coalesce(p.value, s.boot_val), false)
  FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.text[])) AS p (name, value)
  JOIN pg_catalog.pg_settings s ON s.name OPERATOR(pg_catalog.=) p.name
