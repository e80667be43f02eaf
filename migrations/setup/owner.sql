-- Gives the objects that earlier migrations made to oarlock_owner; later migrations create as that role. Sequences of columns
-- and types of tables follow their table.
DO $$
DECLARE
  target regrole := 'oarlock_owner';
  command text;
BEGIN
  FOR command IN
    SELECT format('ALTER SCHEMA %I OWNER TO oarlock_owner', nspname)
      FROM pg_namespace WHERE nspname IN ('oarlock', 'oarlock_river') AND nspowner <> target
    UNION ALL
    SELECT format('ALTER TABLE %s OWNER TO oarlock_owner', c.oid::regclass)
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname IN ('oarlock', 'oarlock_river') AND c.relowner <> target AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    UNION ALL
    SELECT format('ALTER SEQUENCE %s OWNER TO oarlock_owner', c.oid::regclass)
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname IN ('oarlock', 'oarlock_river') AND c.relowner <> target AND c.relkind = 'S'
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i'))
    UNION ALL
    SELECT format('ALTER ROUTINE %s OWNER TO oarlock_owner', p.oid::regprocedure)
      FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
     WHERE n.nspname IN ('oarlock', 'oarlock_river') AND p.proowner <> target
    UNION ALL
    SELECT format('ALTER TYPE %s OWNER TO oarlock_owner', t.oid::regtype)
      FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace LEFT JOIN pg_class c ON c.oid = t.typrelid
     WHERE n.nspname IN ('oarlock', 'oarlock_river') AND t.typowner <> target AND t.typelem = 0
       AND (t.typtype IN ('e', 'd', 'r') OR c.relkind = 'c')
  LOOP
    EXECUTE command;
  END LOOP;
END $$;
