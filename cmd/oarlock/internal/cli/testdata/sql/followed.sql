-- Whether somebody follows a log by now.
SELECT EXISTS (SELECT FROM oarlock.followers WHERE logs)
