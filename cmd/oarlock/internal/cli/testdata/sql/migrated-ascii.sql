UPDATE pg_database SET encoding = 0 WHERE datname = current_database()
