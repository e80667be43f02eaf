SELECT oarlock.enqueue($1)
