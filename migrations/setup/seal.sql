-- Takes back the rights that Postgres grants to PUBLIC by default, EXECUTE on functions above all.
REVOKE ALL ON SCHEMA oarlock, oarlock_river FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA oarlock, oarlock_river FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA oarlock, oarlock_river FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA oarlock, oarlock_river FROM PUBLIC;
