UPDATE oarlock.agenda SET at = now() - interval '5 minutes' WHERE kind = 'schedule'
