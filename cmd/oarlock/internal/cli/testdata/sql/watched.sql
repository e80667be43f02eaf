-- Whether somebody follows a run by now.
SELECT EXISTS (SELECT FROM oarlock.followers)
