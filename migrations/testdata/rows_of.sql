-- A call of each function that returns the rows of a table by a query that names their columns: it fails once the table has others.
SELECT format('SELECT * FROM oarlock.%I(%s)', p.proname,
              (SELECT coalesce(string_agg('NULL::' || format_type(a, NULL), ', ' ORDER BY n), '') FROM unnest(p.proargtypes) WITH ORDINALITY x (a, n)))
  FROM pg_proc p JOIN pg_type t ON t.oid = p.prorettype JOIN pg_class c ON c.oid = t.typrelid
 WHERE p.pronamespace = 'oarlock'::regnamespace AND c.relkind = 'r' AND p.prosqlbody IS NOT NULL
 ORDER BY 1
