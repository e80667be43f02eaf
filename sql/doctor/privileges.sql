-- Purpose: whether this user may enter the schema, whether the group roles exist, and which of them the user has
-- Index: pg_namespace_nspname_index; pg_authid is small
-- Locks: none
SELECT n.oid IS NOT NULL                                                AS has_schema,
       coalesce(has_schema_privilege(n.oid, 'USAGE'), false)            AS has_usage,
       EXISTS (SELECT FROM pg_roles WHERE rolname = 'oarlock_owner')    AS has_roles,
       ARRAY (SELECT rolname::text FROM pg_roles
               WHERE rolname IN ('oarlock_owner', 'oarlock_worker', 'oarlock_submit', 'oarlock_read', 'oarlock_approve', 'oarlock_admin')
                 AND pg_has_role(oid, 'MEMBER') ORDER BY rolname)       AS member_of,
       (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)     AS superuser,
       current_user::text                                               AS user_name
  FROM (SELECT to_regnamespace('oarlock')::oid) AS n (oid)
