-- One line per object of schema oarlock, in words that do not change between major versions of Postgres.
WITH relations AS (
  SELECT c.oid, c.relname::text AS name, c.relkind, c.reloptions, c.relacl, c.relowner, pg_get_partkeydef(c.oid) AS partition_key, c.relrowsecurity AS secured
    FROM pg_class c
   WHERE c.relnamespace = 'oarlock'::regnamespace AND c.relkind IN ('r', 'p', 'v')
     AND (NOT c.relispartition OR c.relname = 'log_chunks_default') -- the others are named after days
), routines AS (
  SELECT p.*, p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')' AS name
    FROM pg_proc p WHERE p.pronamespace = 'oarlock'::regnamespace
), lines (kind, name, rank, line) AS (
  SELECT CASE relkind WHEN 'v' THEN 3 ELSE 1 END, name, 0::bigint,
         E'\n' || CASE relkind WHEN 'v' THEN 'view ' ELSE 'table ' END || name
         || coalesce(' with (' || array_to_string(reloptions, ', ') || ')', '') || coalesce(' partition by ' || partition_key, '') || CASE WHEN secured THEN ' with row security' ELSE '' END
    FROM relations
  UNION ALL
  SELECT CASE relkind WHEN 'v' THEN 3 ELSE 1 END, r.name, 100 + a.attnum,
         format('  %s %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN ' not null' END,
                CASE a.attidentity WHEN 'a' THEN ' identity' END, ' default ' || pg_get_expr(d.adbin, d.adrelid))
         || CASE a.attcompression WHEN 'l' THEN ' lz4' ELSE '' END
    FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
  UNION ALL
  SELECT 1, r.name, 2000 + row_number() OVER (PARTITION BY r.oid ORDER BY k.contype DESC, k.conname),
         '  ' || k.conname || ': ' || pg_get_constraintdef(k.oid)
    FROM relations r JOIN pg_constraint k ON k.conrelid = r.oid WHERE k.contype <> 'n'
  UNION ALL
  SELECT 1, r.name, 3000 + row_number() OVER (PARTITION BY r.oid ORDER BY i.indexrelid::regclass::text), '  ' || pg_get_indexdef(i.indexrelid)
    FROM relations r JOIN pg_index i ON i.indrelid = r.oid
   WHERE NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = r.oid)
  UNION ALL
  SELECT CASE relkind WHEN 'v' THEN 3 ELSE 1 END, r.name, 4000 + row_number() OVER (PARTITION BY r.oid ORDER BY t.tgname), '  ' || pg_get_triggerdef(t.oid)
    FROM relations r JOIN pg_trigger t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal
  UNION ALL
  SELECT 1, r.name, 4500 + row_number() OVER (PARTITION BY r.oid ORDER BY p.polname),
         format('  policy %s for %s using %s with check %s', p.polname, CASE p.polcmd WHEN 'r' THEN 'select' WHEN 'a' THEN 'insert' WHEN 'w' THEN 'update' WHEN 'd' THEN 'delete' ELSE p.polcmd::text END,
                coalesce(pg_get_expr(p.polqual, p.polrelid), '-'), coalesce(regexp_replace(pg_get_expr(p.polwithcheck, p.polrelid), '\s+', ' ', 'g'), '-'))
    FROM relations r JOIN pg_class c ON c.oid = r.oid AND c.relrowsecurity JOIN pg_policy p ON p.polrelid = r.oid
  UNION ALL
  SELECT CASE relkind WHEN 'v' THEN 3 ELSE 1 END, r.name, 5000 + row_number() OVER (PARTITION BY r.oid ORDER BY pg_get_userbyid(g.grantee)),
         format('  granted to %s: %s', CASE g.grantee WHEN 0 THEN 'everybody' ELSE pg_get_userbyid(g.grantee) END, g.privileges)
    FROM relations r,
         LATERAL (SELECT a.grantee, string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type) AS privileges
                    FROM aclexplode(r.relacl) a WHERE a.grantee <> r.relowner GROUP BY a.grantee) g
  UNION ALL
  SELECT 2, p.name, 0, format(E'\nfunction %s returns %s%s%s', p.name, pg_get_function_result(p.oid),
         CASE WHEN p.prosecdef THEN ', security definer' END, ', with ' || array_to_string(p.proconfig, ', '))
    FROM routines p
  UNION ALL
  SELECT 2, p.name, row_number() OVER (PARTITION BY p.oid ORDER BY a.grantee::regrole::text),
         '  granted to ' || CASE a.grantee WHEN 0 THEN 'everybody' ELSE a.grantee::regrole::text END
    FROM routines p, aclexplode(p.proacl) a WHERE a.grantee <> p.proowner
)
SELECT line FROM lines ORDER BY kind, name, rank, line
