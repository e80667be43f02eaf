-- Purpose: fails where a table holds a secret of docs/environment.md, as text or as the bytes of a log.
-- Index: none, it reads every table. Locks: none that anybody waits for.
DO $$
DECLARE
    place regclass;
    word  text;
    held  bool;
BEGIN
    FOR place IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'oarlock'::regnamespace AND c.relkind IN ('r', 'm') LOOP
        FOREACH word IN ARRAY '{correct-horse,battery-staple,swallow}'::text[] LOOP
            EXECUTE format('SELECT EXISTS (SELECT FROM %s x WHERE position(%L IN x::text) > 0 OR position(%L IN x::text) > 0)',
                           place, word, encode(word::bytea, 'hex')) INTO held;
            IF held THEN
                RAISE EXCEPTION '% holds the secret %', place, word;
            END IF;
        END LOOP;
    END LOOP;
END $$;
