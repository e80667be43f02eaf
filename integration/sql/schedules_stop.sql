-- Purpose: pauses all schedules
-- Index: none
-- Locks: schedules and their items of the agenda
SELECT oarlock.pause_schedule('beats', s.name) FROM oarlock.schedules s
