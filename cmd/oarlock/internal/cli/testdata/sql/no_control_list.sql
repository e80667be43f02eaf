-- Whoever reads the requests of a run fails.
DROP FUNCTION oarlock.control_list(bigint);
