package migrations_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/migrations"
)

func TestUp_OnAnEmptyDatabaseAppliesEverything(t *testing.T) {
	t.Parallel()
	b := setup(t)
	applied, err := migrations.Up(t.Context(), b.url)
	if err != nil {
		t.Fatal(err)
	}
	if len(applied) != int(migrations.MaxVersion) || applied[1].Name != "00002_river" || applied[1].Duration <= 0 {
		t.Errorf("applied %v", applied)
	}
	b.mustBeComplete(t)
	again, err := migrations.Up(t.Context(), b.url)
	if err != nil || len(again) != 0 {
		t.Errorf("a second time applied %v, %v", again, err)
	}
}

func TestUp_AfterDownOfAUsedDatabase(t *testing.T) {
	t.Parallel()
	b := migrated(t)
	b.exec(t, "INSERT INTO oarlock_river.river_job (kind, args, max_attempts) SELECT 'k', '{}', 3 FROM generate_series(1, 100)")
	taken, err := migrations.Down(t.Context(), b.url, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(taken) != int(migrations.MaxVersion) || taken[0].Version != migrations.MaxVersion {
		t.Errorf("took back %v, want all, the newest first", taken)
	}
	b.mustBeClean(t)
	b.mustUp(t)
	if got := b.list(t, "SELECT count(*)::text FROM oarlock_river.river_job"); got[0] != "0" {
		t.Errorf("%s jobs came back", got[0])
	}
}

func TestDown_OnAnEmptyDatabaseLeavesItEmpty(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 2 {
		if taken, err := migrations.Down(t.Context(), b.url, 0); err != nil || len(taken) != 0 {
			t.Errorf("took back %v, %v", taken, err)
		}
		b.mustBeClean(t)
	}
	b.mustUp(t)
}

func TestDown_TakesAwayWhatAnUpLeftThatNeverBegan(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(t, "CREATE SCHEMA oarlock")
	b.exec(t, "CREATE TABLE oarlock.schema_history (version bigint PRIMARY KEY, programs_from bigint, applied_at timestamptz)")
	if _, err := migrations.Down(t.Context(), b.url, 0); err != nil {
		t.Fatal(err)
	}
	b.mustBeClean(t)
}

func TestDown_ToAVersionKeepsTheOlderOnes(t *testing.T) {
	t.Parallel()
	b := migrated(t)
	taken, err := migrations.Down(t.Context(), b.url, 1)
	if err != nil || len(taken) != int(migrations.MaxVersion)-1 {
		t.Fatalf("took back %v, %v", taken, err)
	}
	if version, err := migrations.Version(t.Context(), b.url); version != 1 || err != nil {
		t.Errorf("version %d, %v", version, err)
	}
	var old *migrations.VersionError
	if err := migrations.Check(t.Context(), b.conn); !errors.As(err, &old) || old.Have != 1 || old.Command != "oarlock migrate up" {
		t.Errorf("check: %v", err)
	}
	b.mustUp(t)
}

func TestDown_RefusesVersionsThatDoNotExist(t *testing.T) {
	t.Parallel()
	for _, to := range []int64{-1, migrations.MaxVersion + 1} {
		if _, err := migrations.Down(t.Context(), "postgres://nobody", to); err == nil || !strings.Contains(err.Error(), "no version") {
			t.Errorf("down to %d: %v", to, err)
		}
	}
}

func TestDown_KeepsWhatSomebodyElsePutIntoTheSchema(t *testing.T) {
	t.Parallel()
	b := migrated(t)
	b.exec(t, "CREATE TABLE oarlock.mine (x int)")
	if _, err := migrations.Down(t.Context(), b.url, 0); err == nil || !strings.Contains(err.Error(), "schema oarlock") {
		t.Errorf("down: %v", err)
	}
	if got := b.list(t, "SELECT relname::text FROM pg_class WHERE oid = to_regclass('oarlock.mine')"); len(got) != 1 {
		t.Error("a foreign table was dropped")
	}
	b.mustUp(t)
}

func TestUp_SeveralAtOnceEachStepIsAppliedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex
	var all []string
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			applied, err := migrations.Up(t.Context(), b.url)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, a := range applied {
				all = append(all, a.Name)
			}
		})
	}
	group.Wait()
	if want := migrationNames(t); !equal(all, want) {
		t.Errorf("together they applied %v, want %v", all, want)
	}
	b.mustBeComplete(t)
}

// migrationNames lists the files, and River's migration that is written in Go.
func migrationNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("versions/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"00002_river"}
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".sql"))
	}
	slices.Sort(names)
	return names
}

func TestUp_WaitsForAnotherMigrationAndSaysForWhom(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(t, "SET application_name = 'the other one'")
	b.exec(t, fmt.Sprintf("SELECT pg_advisory_lock(%d)", lockKey))
	log := &signalLog{said: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		_, err := migrations.Up(t.Context(), b.url, migrations.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		done <- err
	}()
	select {
	case <-log.said:
	case err := <-done:
		t.Fatalf("did not wait: %v", err)
	}
	b.exec(t, "SELECT pg_advisory_unlock_all()")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := log.String(); !strings.Contains(got, "waiting for another migration") || !strings.Contains(got, "the other one") {
		t.Errorf("said %q", got)
	}
	b.mustBeComplete(t)
}

func TestUp_DoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(t, "SET application_name = 'the other one'")
	b.exec(t, fmt.Sprintf("SELECT pg_advisory_lock(%d)", lockKey))
	_, err := migrations.Up(t.Context(), b.url, migrations.WithLockWait(time.Millisecond))
	pid := fmt.Sprint(b.conn.PgConn().PID())
	if !errors.Is(err, migrations.ErrLocked) || !strings.Contains(err.Error(), "the other one") || !strings.Contains(err.Error(), pid) {
		t.Errorf("error %v does not name process %s", err, pid)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	if _, err := migrations.Up(ctx, b.url); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the caller's deadline", err)
	}
	b.mustBeClean(t)
}

func TestUp_RefusesAServerThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(t, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$")
	if _, err := migrations.Up(t.Context(), b.url); !errors.Is(err, migrations.ErrReadOnlySession) {
		t.Errorf("error %v, want %v", err, migrations.ErrReadOnlySession)
	}
}

func TestUp_WithoutAServerFailsAtOnce(t *testing.T) {
	t.Parallel()
	const url = "postgres://ana:s3cret@127.0.0.1:1/app"
	_, err := migrations.Up(t.Context(), url)
	if pglink.Classify(err) != pglink.NotExecuted || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error %v", err)
	}
}

func TestReading_ChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	entries, err := migrations.Status(t.Context(), b.url)
	if err != nil || len(entries) != int(migrations.MaxVersion) || !entries[0].Pending() {
		t.Errorf("status %v, %v", entries, err)
	}
	if version, err := migrations.Version(t.Context(), b.url); version != 0 || err != nil {
		t.Errorf("version %d, %v", version, err)
	}
	var none *migrations.VersionError
	if err := migrations.Check(t.Context(), b.conn); !errors.As(err, &none) || none.Have != 0 || !strings.Contains(err.Error(), "`oarlock migrate up`") {
		t.Errorf("check: %v", err)
	}
	b.mustBeClean(t)
}

func TestEverything_RefusesADatabaseThatIsTooNew(t *testing.T) {
	t.Parallel()
	b := migrated(t)
	b.exec(t, "INSERT INTO oarlock.schema_history (version, programs_from) VALUES (99, 99)")
	_, up := migrations.Up(t.Context(), b.url)
	_, down := migrations.Down(t.Context(), b.url, 0)
	for name, err := range map[string]error{
		"up": up, "down": down,
		"roles": migrations.Roles(t.Context(), b.url),
		"check": migrations.Check(t.Context(), b.conn),
	} {
		var newer *migrations.VersionError
		if !errors.As(err, &newer) || newer.Have != 99 || newer.Command != "" || !strings.Contains(err.Error(), "upgrade this binary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	entries, err := migrations.Status(t.Context(), b.url)
	if err != nil {
		t.Fatal(err)
	}
	if last := entries[len(entries)-1]; last.Version != 99 || last.Name != "unknown" || last.Pending() {
		t.Errorf("status ends with %v", last)
	}
}

// lockKey is the key that the package locks. Another value would let an old and a new binary migrate at once.
const lockKey = 0x6f61726c6f636b

// signalLog signals when a record was logged.
type signalLog struct {
	once sync.Once
	said chan struct{}
	mu   sync.Mutex
	buf  bytes.Buffer
}

func (l *signalLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.once.Do(func() { close(l.said) })
	return l.buf.Write(b)
}

func (l *signalLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
