-- Puts functions into schema public that raise an error. They fit the argument types of our calls better than the system's own
-- functions, which take any type, so a call that can see schema public reaches them. Locks: none.
DO $$
DECLARE
    trap text;
BEGIN
    FOREACH trap IN ARRAY ARRAY[
        'format(text, text) RETURNS text', 'format(text, text, text) RETURNS text', 'format(text, bigint) RETURNS text',
        'format(text, text, regclass, text) RETURNS text', 'format(text, name) RETURNS text', 'format(text, regclass) RETURNS text',
        'format(text, regprocedure) RETURNS text', 'format(text, regtype) RETURNS text', 'concat_ws(text, text, text) RETURNS text',
        'unnest(bigint[]) RETURNS SETOF bigint', 'unnest(text[]) RETURNS SETOF text', 'unnest(uuid[]) RETURNS SETOF uuid',
        'unnest(int[]) RETURNS SETOF int', 'cardinality(bigint[]) RETURNS int', 'cardinality(uuid[]) RETURNS int',
        'jsonb_build_object(text, int, text, jsonb) RETURNS jsonb', 'array_length(text[], int) RETURNS int',
        'pg_column_size(bytea) RETURNS int'] LOOP
        EXECUTE 'CREATE FUNCTION public.' || trap || ' LANGUAGE plpgsql IMMUTABLE AS $trap$ BEGIN RAISE EXCEPTION ''trapped %'', current_user; END $trap$';
    END LOOP;
    BEGIN
        PERFORM format('%s', 'x'::text);
    EXCEPTION WHEN raise_exception THEN
        RETURN; -- as it should be
    END;
    RAISE EXCEPTION 'the traps are not set';
END $$
