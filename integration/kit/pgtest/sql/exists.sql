-- Reports whether there is a database of this name. Index: pg_database_datname_index.
SELECT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = $1)
