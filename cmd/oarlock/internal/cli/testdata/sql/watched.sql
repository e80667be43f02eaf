-- Whether a client follows a run.
SELECT EXISTS (SELECT FROM oarlock.followers)
