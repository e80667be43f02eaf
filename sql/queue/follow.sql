-- Purpose: announces changes of a run on a channel of ours for a while, and its log too if the caller reads it
-- Index: runs_pkey, followers_pkey
-- Locks: rows of followers
SELECT oarlock.follow(@run, @channel, @seconds, @logs)
