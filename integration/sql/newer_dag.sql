-- A program of a newer version has applied the DAGs that are there, with a key that this one does not know.
UPDATE oarlock.dag_versions SET spec = jsonb_set(spec, '{steps,0,new_key}', '"x"')
