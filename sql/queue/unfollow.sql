-- Purpose: have nothing more announced
-- Index: runs_pkey, followers_pkey
-- Locks: a row of followers
SELECT oarlock.unfollow(@run, @channel)
