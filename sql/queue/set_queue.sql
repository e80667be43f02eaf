-- Purpose: makes a queue, pauses or resumes it, sets its limits; null leaves a setting as it is
-- Index: queues_pkey
-- Locks: the queue's row until the statement is done
SELECT oarlock.set_queue(@name, @paused, @max_running, @max_queued)
