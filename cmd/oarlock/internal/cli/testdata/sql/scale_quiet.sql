-- No autovacuum of any table that is counted: it would come while we count.
DO $$
DECLARE
	one regclass;
BEGIN
	FOR one IN SELECT oid FROM pg_class WHERE relnamespace = 'oarlock'::regnamespace AND relkind = 'r' LOOP
		EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', one);
	END LOOP;
END $$
