-- A user that may log in and nothing else; named after the database, because users belong to the whole server.
DO $$ BEGIN EXECUTE format('CREATE ROLE %I LOGIN PASSWORD ''bare''', 'bare_' || current_database()); END $$;
