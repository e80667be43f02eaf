UPDATE oarlock.events SET message = '' WHERE kind = 'test'
