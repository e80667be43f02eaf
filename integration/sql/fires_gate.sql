-- A gate before each fire: a session that makes the run of a fire time waits in the middle of it, until that many tries are permitted.
CREATE SCHEMA gate;
CREATE SEQUENCE gate.tries;
CREATE TABLE gate.permitted (tries bigint NOT NULL);
INSERT INTO gate.permitted VALUES (0);
CREATE FUNCTION gate.pass() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    mine bigint := nextval('gate.tries');
BEGIN
    WHILE mine > (SELECT tries FROM gate.permitted) LOOP
        PERFORM pg_sleep(0.005);
    END LOOP;
    RETURN NEW;
END $$;
CREATE TRIGGER gate BEFORE INSERT ON oarlock.fires FOR EACH ROW EXECUTE FUNCTION gate.pass();
