-- Purpose: asks for a run; inside a transaction of the caller's it lives and dies with that
-- Index: dags_name_key, dag_versions_pkey, run_keys_pkey (with a key)
-- Locks: the key's row in run_keys until the transaction ends; another session that uses the same key waits
SELECT oarlock.enqueue(@dag::text, @params::text::jsonb, run_key => @key::text, run_at => @run_at::timestamptz,
                       priority => @priority::int, queue => @queue::text, labels => coalesce(@labels::text, '{}')::jsonb,
                       selector => @selector::text::jsonb, logical_at => @logical_at::timestamptz, traceparent => @traceparent::text,
                       precomputed => @precomputed::text::jsonb, version => @version::int, trigger => @trigger::text)
