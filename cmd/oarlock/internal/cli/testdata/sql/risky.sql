-- Settings of the database that Oarlock warns of, or refuses.
DO $$ BEGIN
  EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database());
  EXECUTE format('ALTER DATABASE %I SET idle_session_timeout = ''10min''', current_database());
END $$;
