UPDATE oarlock.installation SET served_at = now(), database = 1
