-- Makes the names in the next statements mean objects of the system only. Another user may create a function that fits better,
-- in a schema of the search path: it would run with the rights of the administrator that prepares the database.
SET LOCAL search_path = pg_catalog, pg_temp;
