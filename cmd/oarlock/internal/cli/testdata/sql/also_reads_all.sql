-- The login that may submit reads the runs of others besides.
DO $$ BEGIN
    EXECUTE format('GRANT oarlock_read TO %I', 'oarlock_submit_' || current_database());
END $$;
