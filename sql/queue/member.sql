-- Purpose: whether the user is a member of one of these roles
-- Index: pg_authid is small
-- Locks: none
SELECT EXISTS (SELECT FROM pg_roles a WHERE a.rolname = ANY ($1) AND pg_has_role(a.oid, 'MEMBER'))
