-- Purpose: sets the parameters of a session, $1 their names and $2 their values; names are qualified, since search_path may be one
-- Index: none
-- Locks: none
SELECT pg_catalog.set_config(p.name, p.value, false) FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.text[])) AS p (name, value)
