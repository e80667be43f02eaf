UPDATE oarlock.agenda SET held_from = at WHERE kind = 'schedule'
