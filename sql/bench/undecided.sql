-- Purpose: whether schedules with a name that begins with $1 have not fired yet. Only benchmarks send it
-- Index: agenda_pkey
-- Locks: none
SELECT EXISTS (SELECT FROM oarlock.agenda a JOIN oarlock.schedules s ON s.schedule_id = a.id WHERE a.kind = 'schedule' AND s.name LIKE $1 || ' %')
