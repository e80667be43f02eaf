package migrations_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// calls are the functions that tests of this package have called, as the server counts them. PL/pgSQL checks a statement only
// when it first runs it, so a misspelt column would fail in production: a test must call every function. SQL functions are
// checked when made.
var calls struct {
	sync.Mutex
	made      map[string]bool
	untracked bool // this user may not turn the counting on
}

// countCalls makes later connections to the database count calls of functions, and adds the counts up when the test ends.
func countCalls(t *testing.T, url string) {
	t.Helper()
	conn := connect(t, url)
	if _, err := conn.Exec(t.Context(), fmt.Sprintf("ALTER DATABASE %s SET track_functions = 'all'", pgx.Identifier{conn.Config().Database}.Sanitize())); err != nil {
		calls.Lock()
		defer calls.Unlock()
		calls.untracked = true
		return
	}
	_ = conn.Close(t.Context())
	t.Cleanup(func() { addCalls(t, url) })
}

// addCalls waits for other connections to end, because they report their calls to the server only then.
func addCalls(t *testing.T, url string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(ctx)
	for others := 1; others > 0; {
		err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&others)
		if err != nil {
			t.Errorf("wait for the connections of the test: %v", err)
			return
		}
	}
	rows, _ := conn.Query(ctx, "SELECT funcname FROM pg_stat_user_functions WHERE schemaname = 'oarlock' AND calls > 0")
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Error(err)
	}
	calls.Lock()
	defer calls.Unlock()
	if calls.made == nil {
		calls.made = map[string]bool{}
	}
	for _, name := range names {
		calls.made[name] = true
	}
}

// uncalled returns the functions that no test called. It leaves out most functions of later files, which the tests of package
// queue call.
func uncalled() (names []string, err error) {
	files, err := filepath.Glob("versions/0000[3-7]_*.sql")
	if err != nil {
		return nil, err
	}
	files = append(files, "versions/00017_pools.sql")
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, function := range strings.Split(string(source), "CREATE FUNCTION oarlock.")[1:] {
			name, rest, _ := strings.Cut(function, "(")
			if strings.HasPrefix(language.FindString(rest), "LANGUAGE plpgsql") && !calls.made[name] {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

var language = regexp.MustCompile(`LANGUAGE \w+`)

// verdict is the exit status of the package: a run of all tests must have called all functions.
func verdict(status int) int {
	partly := testing.Short() || calls.untracked
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		partly = partly || flag.Lookup(name).Value.String() != ""
	}
	if status != 0 || partly {
		return status
	}
	names, err := uncalled()
	if err != nil || len(names) > 0 {
		fmt.Fprintf(os.Stderr, "functions that no test called: %s %v\n", strings.Join(names, " "), err)
		return 1
	}
	return 0
}
