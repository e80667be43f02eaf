-- A login that may submit, and nothing else. Roles are of the whole server, so its name is the database's.
DO $$ BEGIN
    EXECUTE format('CREATE ROLE %I LOGIN PASSWORD ''s'' IN ROLE oarlock_submit', 's_' || current_database());
END $$;
