-- Prepares the session that migrates. The session works as the owner of schema oarlock, so that all it creates belongs to
-- that role, whichever user connects. It waits 500 ms for a lock at most, because statements of other sessions queue up behind
-- it. A migration that did not get a lock is tried again, a few times.
DO $$
DECLARE
  owner name := (SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'oarlock');
BEGIN
  IF owner <> current_user THEN
    IF NOT pg_has_role(owner, CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END) THEN
      RAISE insufficient_privilege USING MESSAGE = format(
        'schema oarlock belongs to %I: connect as a member of it, or let an administrator run `GRANT %I TO %I`',
        owner, owner, current_user);
    END IF;
    PERFORM set_config('role', owner, false);
  END IF;
  PERFORM set_config('lock_timeout', '500ms', false);
  PERFORM set_config('statement_timeout', '0', false);
  PERFORM set_config('idle_session_timeout', '0', false);
END $$;
