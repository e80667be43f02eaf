-- Purpose: the name of the login, and which groups of functions of this program it may call
-- Index: pg_proc_proname_args_nsp_index, pg_class_relname_nsp_index
-- Locks: none
SELECT session_user::text,
       coalesce(bool_or(has_any_column_privilege(t.oid, 'SELECT')), false),
       coalesce(bool_or(may.call) FILTER (WHERE may.name = 'enqueue'), false),
       coalesce(bool_or(may.call) FILTER (WHERE may.name = 'approve'), false),
       coalesce(bool_or(may.call) FILTER (WHERE may.name = 'set_queue'), false),
       coalesce(bool_or(may.call) FILTER (WHERE may.name = 'vouch'), false),
       EXISTS (SELECT FROM pg_roles a WHERE a.rolname = 'oarlock_web' AND pg_has_role(session_user, a.oid, 'MEMBER'))
  FROM pg_namespace n
  JOIN pg_class t ON t.relnamespace = n.oid AND t.relname = 'dag_versions'
  LEFT JOIN LATERAL (
       SELECT p.proname AS name, has_function_privilege(p.oid, 'EXECUTE') AND has_schema_privilege(n.oid, 'USAGE') AS call
         FROM pg_proc p WHERE p.pronamespace = n.oid AND p.proname IN ('enqueue', 'approve', 'set_queue', 'vouch')) may ON true
 WHERE n.nspname = 'oarlock'
