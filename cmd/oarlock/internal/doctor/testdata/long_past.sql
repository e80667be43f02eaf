SET session_replication_role = replica; -- a run that is over changes no more, but for a superuser who insists
UPDATE oarlock.runs SET created_at = now() - interval '40 days', finished_at = now() - interval '40 days';
RESET session_replication_role
