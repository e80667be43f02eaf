-- An older binary migrated this database, and no newer one has since.
DELETE FROM oarlock.schema_history WHERE version > 1;
