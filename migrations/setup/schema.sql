-- Makes the two schemas. A schema that exists is passed over, because CREATE SCHEMA IF NOT EXISTS asks for the privilege even
-- then.
DO $$
DECLARE
  missing name;
BEGIN
  FOREACH missing IN ARRAY ARRAY['oarlock', 'oarlock_river']::name[] LOOP
    IF to_regnamespace(missing::text) IS NOT NULL THEN
      CONTINUE;
    END IF;
    IF NOT has_database_privilege(current_database(), 'CREATE') THEN
      RAISE insufficient_privilege USING MESSAGE = format(
        '%I may not create schema %I in database %I: let an administrator run `GRANT CREATE ON DATABASE %I TO %I`, or what `oarlock migrate roles` prints',
        current_user, missing, current_database(), current_database(), current_user);
    END IF;
    EXECUTE format('CREATE SCHEMA %I', missing);
  END LOOP;
END $$;
