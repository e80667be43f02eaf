-- Any read of a run's requests fails.
DROP FUNCTION oarlock.control_list(bigint);
