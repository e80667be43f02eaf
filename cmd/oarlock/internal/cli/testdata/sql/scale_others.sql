-- Whether another client is connected: the server adds what a backend read to its statistics when the backend ends.
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend')
