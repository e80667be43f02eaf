-- Names in what follows are the system's own: a function that fits better, in a schema of the path that others may create
-- in, would be executed with the rights of whoever prepares the database.
SET LOCAL search_path = pg_catalog, pg_temp;
