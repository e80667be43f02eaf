-- Whether a client follows a log.
SELECT EXISTS (SELECT FROM oarlock.followers WHERE logs)
