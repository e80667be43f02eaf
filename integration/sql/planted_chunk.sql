UPDATE oarlock.log_chunks SET data = 'xy' WHERE seq = 1
