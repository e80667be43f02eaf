-- Keeps a schedule for each tenant, in the transactions that make, change and delete the tenant. Apply tenant-report.yaml first, and run this
-- file as a user with the role oarlock_submit.
SET client_min_messages = warning;
CREATE TEMP TABLE tenants (name text PRIMARY KEY, timezone text NOT NULL);

-- Makes a tenant with its schedule. Returns the time of its first report.
BEGIN;
INSERT INTO tenants VALUES ('acme', 'Europe/Paris');
SELECT next_at FROM oarlock.put_schedule('tenant-report', 'acme', cron => '0 6 * * 1-5', timezone => 'Europe/Paris',
    params => '{"tenant": "acme"}', labels => '{"tenant": "acme"}', jitter => '10 minutes');
COMMIT;

-- A tenant that is rolled back leaves no schedule behind.
BEGIN;
INSERT INTO tenants VALUES ('initech', 'America/Chicago');
SELECT oarlock.put_schedule('tenant-report', 'initech', cron => '0 6 * * 1-5', timezone => 'America/Chicago', params => '{"tenant": "initech"}');
ROLLBACK;

-- Deletes a tenant with its schedule. Its present runs go on.
BEGIN;
DELETE FROM tenants WHERE name = 'acme';
SELECT oarlock.drop_schedule('tenant-report', 'acme');
COMMIT;

-- Or does so for all tenants at once. Afterwards there is one schedule for each present tenant, and no other. A schedule that stays the same
-- keeps its next time.
BEGIN;
INSERT INTO tenants VALUES ('globex', 'America/New_York'), ('hooli', 'Asia/Tokyo');
SELECT name, next_at FROM oarlock.put_schedules((
    SELECT coalesce(jsonb_agg(jsonb_build_object('name', t.name, 'cron', '0 6 * * 1-5', 'timezone', t.timezone, 'jitter', '10m',
               'params', jsonb_build_object('tenant', t.name), 'labels', jsonb_build_object('tenant', t.name))), '[]')
      FROM tenants t), 'tenant-report');
COMMIT;
