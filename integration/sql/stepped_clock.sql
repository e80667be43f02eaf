-- The database's clock, as far as statements see it, with steps.
CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
AS 'SELECT timeofday()::timestamptz + ahead FROM chaos.clock';
