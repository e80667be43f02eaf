-- A login that may submit, and nothing else. Roles belong to the whole server, so the login is named after the database.
DO $$ BEGIN
    EXECUTE format('CREATE ROLE %I LOGIN PASSWORD ''s'' IN ROLE oarlock_submit', 's_' || current_database());
END $$;
