DELETE FROM oarlock.tasks WHERE step = 1
