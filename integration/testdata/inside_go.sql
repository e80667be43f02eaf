-- Lets step a of inside.yaml go on.
INSERT INTO go VALUES (1);
