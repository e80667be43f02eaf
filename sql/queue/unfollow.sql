-- Purpose: ends the announcements of a run on a channel
-- Index: runs_pkey, followers_pkey
-- Locks: a row of followers
SELECT oarlock.unfollow(@run, @channel)
