DO $$ BEGIN
  EXECUTE format('DROP OWNED BY %I', 'bare_' || current_database());
  EXECUTE format('DROP ROLE %I', 'bare_' || current_database());
END $$;
