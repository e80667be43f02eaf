-- Purpose: the approvers that current versions of DAGs name and that are no roles, by step; of the DAGs in @dags, or of all
--          where @dags is null
-- Index: dags_name_key, dag_versions_pkey, pg_authid_rolname_index
-- Locks: none
SELECT d.name AS dag, s.name AS step, array_agg(DISTINCT m.role ORDER BY m.role) AS roles, bool_or(m.alone) AS alone
  FROM oarlock.dags d
  JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version
 CROSS JOIN LATERAL oarlock.steps_of(v.spec) s
 CROSS JOIN LATERAL (SELECT oarlock.bodies_of(s.name, s.body) UNION ALL SELECT oarlock.bodies_of(s.name || '~1', s.body)) b (body)
 CROSS JOIN LATERAL (
       SELECT n.role #>> '{}' AS role, r.oid IS NULL AS missing, bool_and(r.oid IS NULL) OVER () AS alone
         FROM jsonb_path_query(b.body, '$ ? (@.action == "approval").with.approvers[*]') n (role)
         LEFT JOIN pg_roles r ON r.rolname = n.role #>> '{}') m
 WHERE (@dags::text[] IS NULL OR d.name = ANY (@dags)) AND d.removed_at IS NULL AND jsonb_path_exists(v.spec, '$.**.approvers') AND m.missing
 GROUP BY d.name, s.name
 ORDER BY d.name, s.name LIMIT 100
