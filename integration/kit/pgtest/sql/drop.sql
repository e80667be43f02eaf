-- Drops a database, connections that a test forgot included. Locks: the database, exclusive.
DROP DATABASE IF EXISTS {name} WITH (FORCE)
