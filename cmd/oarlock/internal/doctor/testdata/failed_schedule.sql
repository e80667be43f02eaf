UPDATE oarlock.agenda SET errors = 2, error = 'out of luck' WHERE kind = 'schedule'
