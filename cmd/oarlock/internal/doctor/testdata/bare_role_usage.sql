DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA oarlock TO %I', 'bare_' || current_database()); END $$;
