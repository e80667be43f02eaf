UPDATE oarlock.attempts SET state = 'succeeded'
