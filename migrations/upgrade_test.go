package migrations_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

// next is a database that a newer program has migrated, and that this program still works with.
func next(t *testing.T) bundle {
	t.Helper()
	b := migrated(t)
	b.exec(t, readFile(t, "testdata/next.sql"))
	b.exec(t, readFile(t, "testdata/next_recorded.sql"))
	return b
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestUpgrade_TheOlderProgramWorksWithTheNextSchema(t *testing.T) {
	t.Parallel()
	b := next(t)
	if err := migrations.Check(t.Context(), b.conn); err != nil {
		t.Errorf("check: %v", err)
	}
	if applied, err := migrations.Up(t.Context(), b.url); err != nil || len(applied) != 0 {
		t.Errorf("up applied %v, %v", applied, err)
	}
	schema, err := migrations.Look(t.Context(), b.conn)
	if want := (migrations.Schema{Version: migrations.MaxVersion + 1, ProgramsFrom: migrations.MaxVersion}); err != nil || schema != want || !schema.Newer() {
		t.Errorf("schema %+v, %v, want %+v", schema, err, want)
	}
}

func TestUpgrade_TheOlderProgramDoesNotChangeTheNextSchema(t *testing.T) {
	t.Parallel()
	b := next(t)
	if _, err := migrations.Down(t.Context(), b.url, 0); err == nil || !strings.Contains(err.Error(), "upgrade this binary") {
		t.Errorf("down: %v", err)
	}
	if err := migrations.Roles(t.Context(), b.url); err == nil || !strings.Contains(err.Error(), "upgrade this binary") {
		t.Errorf("roles: %v", err)
	}
}

func TestUp_RefusesToStopWorkers(t *testing.T) {
	t.Parallel()
	b := migrated(t)
	must(t, b.conn, `INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, schema_version, labels, queues, slots, containment, ttl_ms, channel, state)
		SELECT gen_random_uuid(), n, 'h', 'b', 1, 'v', of, '{}', '{}', 8, 'none', 3600000, 'oarlock_' || n, state
		  FROM (VALUES ('old', $1::bigint - 1, 'live'), ('older', 3, 'draining'), ('gone', 3, 'gone'), ('silent', 3, 'live'), ('new', $1, 'live')) w (n, of, state)`, migrations.MaxVersion)
	b.exec(t, "UPDATE oarlock.workers SET beat_at = now() - interval '2 hours' WHERE name = 'silent'")
	if _, err := migrations.Down(t.Context(), b.url, migrations.MaxVersion-1); err != nil {
		t.Fatal(err)
	}
	_, err := migrations.Up(t.Context(), b.url)
	if e, ok := errors.AsType[*migrations.ExcludedError](err); !ok || !slices.Equal(e.Workers, []string{"old", "older"}) {
		t.Errorf("up: %v", err)
	}
	if version, err := migrations.Version(t.Context(), b.url); err != nil || version != migrations.MaxVersion-1 {
		t.Errorf("version %d, %v", version, err)
	}
	if names, err := migrations.Excludes(t.Context(), b.url); err != nil || !slices.Equal(names, []string{"old", "older"}) {
		t.Errorf("it would stop %v: %v", names, err)
	}
	if _, err := migrations.Up(t.Context(), b.url, migrations.WithForce()); err != nil {
		t.Error(err)
	}
	if names, err := migrations.Excludes(t.Context(), b.url); err != nil || len(names) > 0 {
		t.Errorf("nothing is pending, and it would stop %v: %v", names, err)
	}
}

// registers registers a worker of the older program, and returns the number of rows: 0 if it was refused.
func registers(t *testing.T, conn *pgx.Conn) int64 {
	t.Helper()
	tag, err := conn.Exec(t.Context(), sql.Named("queue/register"), pgx.StrictNamedArgs{
		"worker": uuid.New(), "name": "old", "host": "h", "boot": "b", "pid": 1, "version": "v", "schema": migrations.MaxVersion - 1,
		"labels": map[string]string{}, "queues": []string{}, "offers": []string{}, "slots": 8, "containment": "none", "ttl": 3600000,
		"channel": "oarlock_old", "only": nil,
	})
	if err != nil {
		t.Error(err)
	}
	return tag.RowsAffected()
}

// goesUp takes the newest migration back and applies it again, up to the first message that matches.
func (b bundle) goesUp(t *testing.T, at netfault.Match) (held *netfault.Injected, result chan error) {
	t.Helper()
	if _, err := migrations.Down(t.Context(), b.url, migrations.MaxVersion-1); err != nil {
		t.Fatal(err)
	}
	proxy, through := netfault.Through(t, b.url)
	held, result = proxy.Inject(netfault.Fault{When: at, Do: netfault.Hold}), make(chan error, 1)
	go func() {
		_, err := migrations.Up(t.Context(), through)
		result <- err
	}()
	held.MustFire(t)
	return held, result
}

func TestUp_SeesAWorkerThatRegistersMeanwhile(t *testing.T) {
	t.Parallel()
	b := migrated(t)
	// The migration has begun, and does not have its lock on the fences yet, for which the worker would wait.
	held, result := b.goesUp(t, func(m netfault.Message) bool {
		return m.From == netfault.Client && bytes.Contains(m.Body, []byte("CREATE TABLE oarlock.pools"))
	})
	if n := registers(t, b.conn); n == 0 {
		t.Error("nothing excludes the worker yet, and it is refused")
	}
	held.Release()
	err := <-result
	if e, ok := errors.AsType[*migrations.ExcludedError](err); !ok || !slices.Equal(e.Workers, []string{"old"}) {
		t.Errorf("up: %v", err)
	}
	if version, err := migrations.Version(t.Context(), b.url); err != nil || version != migrations.MaxVersion-1 {
		t.Errorf("version %d, %v", version, err)
	}
}

func TestUp_HasAWorkerWaitThatItExcludes(t *testing.T) {
	t.Parallel()
	b := migrated(t)
	held, result := b.goesUp(t, netfault.Completed("INSERT 0 1")) // recorded, and not committed
	rows, conn := make(chan int64, 1), b.db.Conn(t)
	go func() { rows <- registers(t, conn) }()
	await.True(t, "the worker is through, or waits for the migration", func() bool {
		const waits = "SELECT pid::text FROM pg_locks WHERE NOT granted AND pid = $1"
		return len(rows) > 0 || len(b.list(t, waits, conn.PgConn().PID())) > 0
	})
	held.Release()
	if err := <-result; err != nil {
		t.Errorf("up: %v", err)
	}
	if n := <-rows; n != 0 {
		t.Error("a worker has registered that the migration excludes, unseen by it")
	}
}

// The schema as programs of an older version use it: every line of it in words. A migration that keeps programs may only add
// lines, and change the bodies of functions.
func (b bundle) lines(t *testing.T) []string {
	t.Helper()
	var lines []string
	owner := ""
	for line := range strings.SplitSeq(strings.Join(b.list(t, readFile(t, "testdata/dump.sql")), "\n"), "\n") {
		if line == "" {
			continue
		}
		if kind, rest, _ := strings.Cut(line, " "); kind == "table" || kind == "view" || kind == "function" {
			name, _, _ := strings.Cut(strings.Fields(rest)[0], "(")
			owner = kind + " " + name
		}
		lines = append(lines, owner+" | "+strings.TrimSpace(line))
	}
	return lines
}

// broken lists the functions that fail since a table has other columns.
func (b bundle) broken(t *testing.T) (failed []string) {
	t.Helper()
	for _, call := range b.list(t, readFile(t, "testdata/rows_of.sql")) {
		b.exec(t, "SAVEPOINT call")
		if _, err := b.conn.Exec(t.Context(), call); err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", call, err))
		}
		b.exec(t, "ROLLBACK TO call")
	}
	return failed
}

// gone lists the lines that a schema had.
func gone(before, after []string) (lines []string) {
	for _, line := range before {
		if !slices.Contains(after, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// refusing matches lines that may break an older program: a column that it does not fill, a rule that it does not know.
var refusing = regexp.MustCompile(`: CHECK |: UNIQUE |: EXCLUDE |: FOREIGN KEY |\| CREATE UNIQUE INDEX|\| CREATE TRIGGER`)

// refuses lists new lines of an existing table that may refuse rows of older programs, and new functions under an existing
// name: a call of an older program may become ambiguous.
func refuses(before, after []string) (lines []string) {
	owner := func(line string) string { name, _, _ := strings.Cut(line, " | "); return name }
	for _, line := range gone(after, before) {
		had := slices.ContainsFunc(before, func(old string) bool { return owner(old) == owner(line) })
		switch {
		case had && strings.Contains(line, " not null") && !strings.Contains(line, " default "),
			had && refusing.MatchString(line),
			had && strings.HasPrefix(line, "function "):
			lines = append(lines, line)
		}
	}
	return lines
}

func TestUpgrade_AMigrationThatKeepsProgramsTakesNothingAway(t *testing.T) {
	t.Parallel()
	b := migrated(t)
	b.mustRoles(t)
	entries, err := migrations.Status(t.Context(), b.url)
	if err != nil {
		t.Fatal(err)
	}
	before := b.lines(t)
	for _, m := range slices.Backward(entries) {
		if m.ProgramsFrom == m.Version {
			break
		}
		if _, err := migrations.Down(t.Context(), b.url, m.Version-1); err != nil {
			t.Fatal(err)
		}
		older := b.lines(t)
		if wrong := append(gone(older, before), refuses(older, before)...); len(wrong) > 0 {
			t.Errorf("%s does not keep programs: %q", m.Name, wrong)
		}
		before = older
	}
	b.mustUp(t)
	before = b.lines(t)
	b.exec(t, "BEGIN")
	if failed := b.broken(t); len(failed) > 0 {
		t.Errorf("these functions fail as the schema is: %q", failed)
	}
	b.exec(t, "ROLLBACK")
	for change, takes := range map[string]bool{
		readFile(t, "testdata/next.sql"):                                                                                                  false,
		"ALTER TABLE oarlock.runs DROP COLUMN actor CASCADE":                                                                              true,
		"ALTER TABLE oarlock.workers ALTER schema_version TYPE int":                                                                       true,
		"ALTER TABLE oarlock.workers DROP CONSTRAINT workers_pkey CASCADE":                                                                true,
		"ALTER FUNCTION oarlock.who() RENAME TO whoever":                                                                                  true,
		"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA oarlock FROM oarlock_submit":                                                               true,
		"ALTER TABLE oarlock.workers ADD next_column text NOT NULL DEFAULT ''":                                                            false,
		"ALTER TABLE oarlock.workers ADD next_column text NOT NULL":                                                                       true,
		"ALTER TABLE oarlock.queues ADD CHECK (name <> 'x')":                                                                              true,
		"CREATE UNIQUE INDEX next_index ON oarlock.workers (name, started_at)":                                                            true,
		"ALTER TABLE oarlock.runs ALTER created_at DROP NOT NULL":                                                                         true,
		"ALTER TABLE oarlock.workers ENABLE ROW LEVEL SECURITY":                                                                           true,
		"CREATE FUNCTION oarlock.cancel(run bigint, why int) RETURNS int LANGUAGE sql RETURN 1":                                           true,
		"CREATE TRIGGER next_trigger BEFORE INSERT ON oarlock.workers FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()": true,
		"ALTER TABLE oarlock.runs ADD next_column text":                                                                                   true, // without a new visible_run
		"CREATE INDEX next_index ON oarlock.workers (name); CREATE TABLE oarlock.next (x int)":                                            false,
	} {
		b.exec(t, "BEGIN; "+change)
		after := b.lines(t)
		lost := slices.Concat(gone(before, after), refuses(before, after), b.broken(t))
		b.exec(t, "ROLLBACK")
		if takes != (len(lost) > 0) {
			t.Errorf("%s: takes away %q", change, lost)
		}
	}
}

func TestUp_NamesTheTransactionThatHoldsItUp(t *testing.T) {
	t.Parallel()
	b := migrated(t)
	if _, err := migrations.Down(t.Context(), b.url, 15); err != nil {
		t.Fatal(err)
	}
	b.exec(t, "SET application_name = 'report'; BEGIN; LOCK TABLE oarlock.events IN ROW EXCLUSIVE MODE")
	_, err := migrations.Up(t.Context(), b.url)
	if !errors.Is(err, migrations.ErrHeld) || !strings.Contains(err.Error(), "of user postgres (report), open since 2") {
		t.Errorf("up: %v", err)
	}
	b.exec(t, "COMMIT")
	b.mustUp(t)
}
