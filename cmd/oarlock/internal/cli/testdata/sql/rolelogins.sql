-- A login for each role, and one without. Roles belong to the whole server, so the logins' names contain the database's.
DO $$ DECLARE r text; BEGIN
    EXECUTE format('CREATE ROLE %I LOGIN PASSWORD ''s''', 'nobody_' || current_database());
    FOREACH r IN ARRAY ARRAY['oarlock_submit', 'oarlock_read', 'oarlock_approve', 'oarlock_worker', 'oarlock_admin'] LOOP
        EXECUTE format('CREATE ROLE %I LOGIN PASSWORD ''s'' IN ROLE %I', r || '_' || current_database(), r);
    END LOOP;
END $$;
