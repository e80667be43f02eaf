-- Claims change no row, so a worker that polls gets nothing.
CREATE FUNCTION chaos.keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER chaos_keep BEFORE UPDATE ON oarlock.runs FOR EACH ROW WHEN (OLD.state = 'queued' AND NEW.state = 'running') EXECUTE FUNCTION chaos.keep();
