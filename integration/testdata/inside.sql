-- What inside.yaml writes to, and the row that its step a waits for.
CREATE TABLE ledger (n int PRIMARY KEY);
CREATE TABLE go (n int);
