UPDATE oarlock.tasks SET state = 'succeeded', finished_at = now() WHERE step = 0
