-- Adds a key that this program does not know to all DAGs, as if a newer program had applied them.
UPDATE oarlock.dag_versions SET spec = jsonb_set(spec, '{steps,0,new_key}', '"x"')
