-- The pools of build-farm.yaml and api-budget.yaml, for an administrator: psql "$DATABASE_URL" -f examples/limits/pools.sql
SELECT oarlock.set_pool('farm', slots => 8);
SELECT oarlock.set_pool('farm-memory', slots => 4);
SELECT oarlock.set_pool('crm', slots => 2, per_key => true, rate => 100, per => '1 minute', burst => 20);
SELECT oarlock.set_pool('merge', slots => 1);
