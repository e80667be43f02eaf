SELECT count(*) FROM oarlock.runs
