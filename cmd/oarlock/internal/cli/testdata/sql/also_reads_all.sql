-- The submitter's login may also read other users' runs.
DO $$ BEGIN
    EXECUTE format('GRANT oarlock_read TO %I', 'oarlock_submit_' || current_database());
END $$;
