-- A login without a role, and one for each of three roles.
CREATE ROLE stranger LOGIN PASSWORD 's';
CREATE ROLE submitter LOGIN PASSWORD 's' IN ROLE oarlock_submit;
CREATE ROLE reader LOGIN PASSWORD 's' IN ROLE oarlock_read;
CREATE ROLE operator LOGIN PASSWORD 's' IN ROLE oarlock_admin;
