-- Replaces the clock functions, so that statements see a clock that steps. The server calls a built-in function by number and
-- never reads its replacement, unless the planner inlines it: so each replacement is one expression, without FROM.
CREATE SCHEMA clock;
GRANT USAGE ON SCHEMA clock TO PUBLIC;
CREATE TABLE clock.step (ahead interval NOT NULL);
INSERT INTO clock.step VALUES ('0');
GRANT SELECT ON clock.step TO PUBLIC;
CREATE FUNCTION clock.ahead() RETURNS interval LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT ahead FROM clock.step';
CREATE FUNCTION clock.servers() RETURNS timestamptz LANGUAGE internal VOLATILE STRICT PARALLEL SAFE AS 'clock_timestamp';
CREATE FUNCTION clock.servers_statement() RETURNS timestamptz LANGUAGE internal STABLE STRICT PARALLEL SAFE AS 'statement_timestamp';
CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
AS 'SELECT clock.servers() + clock.ahead()';
CREATE OR REPLACE FUNCTION pg_catalog.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
AS 'SELECT clock.servers_statement() + clock.ahead()';
CREATE OR REPLACE FUNCTION pg_catalog.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
AS 'SELECT CURRENT_TIMESTAMP + clock.ahead()';
DISCARD PLANS;
