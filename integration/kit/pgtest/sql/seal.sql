-- Forbids connections to a template, so that it can always be copied. Locks: the pg_database row.
ALTER DATABASE {name} ALLOW_CONNECTIONS false
