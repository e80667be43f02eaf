-- A setting that Oarlock warns of, although it loses no acknowledged commit.
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET idle_session_timeout = %L', current_database(), '10min'); END $$;
