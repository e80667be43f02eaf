-- A schedule for each tenant, in the transactions that make, change and delete the tenant: with the role oarlock_submit, after
-- tenant-report.yaml was applied.
SET client_min_messages = warning;
CREATE TEMP TABLE tenants (name text PRIMARY KEY, timezone text NOT NULL);

-- A tenant comes. The answer is when its report comes first.
BEGIN;
INSERT INTO tenants VALUES ('acme', 'Europe/Paris');
SELECT next_at FROM oarlock.put_schedule('tenant-report', 'acme', cron => '0 6 * * 1-5', timezone => 'Europe/Paris',
    params => '{"tenant": "acme"}', labels => '{"tenant": "acme"}', jitter => '10 minutes');
COMMIT;

-- One that does not come leaves no schedule behind.
BEGIN;
INSERT INTO tenants VALUES ('initech', 'America/Chicago');
SELECT oarlock.put_schedule('tenant-report', 'initech', cron => '0 6 * * 1-5', timezone => 'America/Chicago', params => '{"tenant": "initech"}');
ROLLBACK;

-- A tenant goes, and its schedule with it. Runs that are there go on.
BEGIN;
DELETE FROM tenants WHERE name = 'acme';
SELECT oarlock.drop_schedule('tenant-report', 'acme');
COMMIT;

-- Or all at once: exactly the schedules of the tenants that there are. What is the same already does not change, and counts on.
BEGIN;
INSERT INTO tenants VALUES ('globex', 'America/New_York'), ('hooli', 'Asia/Tokyo');
SELECT name, next_at FROM oarlock.put_schedules((
    SELECT coalesce(jsonb_agg(jsonb_build_object('name', t.name, 'cron', '0 6 * * 1-5', 'timezone', t.timezone, 'jitter', '10m',
               'params', jsonb_build_object('tenant', t.name), 'labels', jsonb_build_object('tenant', t.name))), '[]')
      FROM tenants t), 'tenant-report');
COMMIT;
