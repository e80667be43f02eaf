-- Purpose: asks for many runs of one DAG: all of them or none; their numbers in the order of the params
-- Index: dags_name_key, dag_versions_pkey, run_keys_pkey (with keys)
-- Locks: the keys' rows in run_keys, in the order of keys
SELECT oarlock.enqueue_many(@dag::text, @params::text[]::jsonb[], @keys::text[], run_at => @run_at::timestamptz,
                            priority => @priority::int, queue => @queue::text, labels => coalesce(@labels::text, '{}')::jsonb,
                            selector => @selector::text::jsonb, traceparent => @traceparent::text, version => @version::int)
