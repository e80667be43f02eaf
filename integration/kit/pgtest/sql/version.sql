-- The server's version as a number: 150014 is 15.14.
SELECT current_setting('server_version_num')::int
