-- For nightly.yaml: a table of yours that workers may write to, where they may not make one. Run it as its owner.
CREATE TABLE IF NOT EXISTS daily_facts (day date PRIMARY KEY, facts bigint NOT NULL);
GRANT SELECT, INSERT, UPDATE ON daily_facts TO oarlock_worker;
