-- A setting of the database that Oarlock warns of, and that loses nothing of what was acknowledged.
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET idle_session_timeout = %L', current_database(), '10min'); END $$;
