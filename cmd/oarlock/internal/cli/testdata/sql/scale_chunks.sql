-- A log of the first task of each run from $1 to $2; that of run $1 has as many pieces as there are runs, of ten lines each.
INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data, final, reason)
SELECT current_date, r, 0, '', 0, 1, q, 1, now(), convert_to(repeat(format('line %s of run %s', q, r) || E'\n', 10), 'UTF8'), q = n - 1,
       CASE WHEN q = n - 1 THEN 'exit' END
  FROM generate_series($1::bigint, $2::bigint) r,
       LATERAL (SELECT CASE WHEN r = $1 THEN least($2 - $1 + 1, 20000) ELSE 1 END AS n) x, generate_series(0, n - 1) q
