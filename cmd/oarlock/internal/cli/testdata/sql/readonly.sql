-- Sessions are read-only, as some poolers and administrators set it for users of a standby.
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$;
