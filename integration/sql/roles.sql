CREATE ROLE chaos_worker LOGIN PASSWORD 'secret' IN ROLE oarlock_worker;
CREATE ROLE chaos_stranger LOGIN PASSWORD 'secret';
