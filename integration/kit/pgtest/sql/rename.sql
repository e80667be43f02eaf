-- A template under its final name is complete. Locks: the database, exclusive.
ALTER DATABASE {name} RENAME TO {to}
