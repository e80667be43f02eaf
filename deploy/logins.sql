-- Logins with one of Oarlock's roles each and nothing else: workers, operators, applications,
-- approvers, and readers such as autoscalers.
-- For psql 15 or newer, after `oarlock migrate roles`, as often as you like. Their passwords come from the environment, and
-- never stand in a log. Where one is missing, nothing is made.
\set ON_ERROR_STOP on
\getenv worker_password OARLOCK_WORKER_PASSWORD
\getenv operator_password OARLOCK_OPERATOR_PASSWORD
\getenv submitter_password OARLOCK_SUBMITTER_PASSWORD
\getenv approver_password OARLOCK_APPROVER_PASSWORD
\getenv reader_password OARLOCK_READER_PASSWORD
SELECT format('DO $lacks$ BEGIN RAISE %L; END $lacks$',
         format('the environment lacks %s: read the file that deploy/passwords made, as by `set -a; . ./oarlock.env; set +a`', string_agg(name, ', ')))
  FROM (VALUES ('OARLOCK_WORKER_PASSWORD', :{?worker_password}),
               ('OARLOCK_OPERATOR_PASSWORD', :{?operator_password}),
               ('OARLOCK_SUBMITTER_PASSWORD', :{?submitter_password}),
               ('OARLOCK_APPROVER_PASSWORD', :{?approver_password}),
               ('OARLOCK_READER_PASSWORD', :{?reader_password})) wanted (name, given)
 WHERE NOT given
HAVING count(*) > 0 \gexec
BEGIN;
SET LOCAL client_min_messages = 'warning';
SET LOCAL log_statement = 'none';
SET LOCAL log_min_duration_statement = -1;
SET LOCAL log_min_error_statement = 'panic';
SELECT format('CREATE ROLE %I', wanted)
  FROM unnest(ARRAY['oarlock_app_worker', 'oarlock_app_operator', 'oarlock_app_submitter', 'oarlock_app_approver', 'oarlock_app_reader']) wanted
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) \gexec
ALTER ROLE oarlock_app_worker LOGIN PASSWORD :'worker_password';
ALTER ROLE oarlock_app_operator LOGIN PASSWORD :'operator_password';
ALTER ROLE oarlock_app_submitter LOGIN PASSWORD :'submitter_password';
ALTER ROLE oarlock_app_approver LOGIN PASSWORD :'approver_password';
ALTER ROLE oarlock_app_reader LOGIN PASSWORD :'reader_password';
GRANT oarlock_worker TO oarlock_app_worker;
GRANT oarlock_admin TO oarlock_app_operator;
GRANT oarlock_submit TO oarlock_app_submitter;
GRANT oarlock_approve TO oarlock_app_approver;
GRANT oarlock_read TO oarlock_app_reader;
COMMIT;
