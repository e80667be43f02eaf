-- Makes the table of nightly.yaml and lets workers write to it, for a database in which workers may not make tables. Run it as a user
-- that may make tables there.
CREATE TABLE IF NOT EXISTS daily_facts (day date PRIMARY KEY, facts bigint NOT NULL);
GRANT SELECT, INSERT, UPDATE ON daily_facts TO oarlock_worker;
