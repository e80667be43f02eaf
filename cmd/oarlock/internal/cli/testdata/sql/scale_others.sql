-- Whether anybody else is connected: what a backend read is counted when it ends.
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend')
