SELECT coalesce(string_agg(c.data, '' ORDER BY c.seq), '') FROM oarlock.log_chunks c
 WHERE c.run_id = $1 AND c.step = $2 AND c.item = $3 AND c.alt = $4 AND c.attempt = $5
