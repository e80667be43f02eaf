-- Purpose: have changes of a run announced on a channel of ours, and its log if it is read, for a while
-- Index: runs_pkey, followers_pkey
-- Locks: rows of followers
SELECT oarlock.follow(@run, @channel, @seconds, @logs)
