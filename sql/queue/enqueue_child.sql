-- Purpose: asks for a child run on behalf of a task, if the claim is still there; the same child again when repeated
-- Index: runs_pkey, run_keys_pkey
-- Locks: the key, if another session takes it at the same moment
SELECT oarlock.enqueue_child(r.run_id, @step, @item, @alt, @attempt, r.generation, @dag, @params, @priority, @queue, @labels, @detached, @run_key, @run_at)
  FROM oarlock.runs r WHERE r.run_id = @run AND r.claim_id = @claim
