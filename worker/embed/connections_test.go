package embed_test

import (
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker/embed"
	"github.com/oarlock-dev/oarlock/worker/exec"
)

// A worker that has used all its features keeps as many connections as it says: doctor and docs/operations.md rely on that.
func TestConnections_AreAsManyAsAWorkerKeeps(t *testing.T) {
	t.Parallel()
	for name, pollOnly := range map[string]bool{"listens": false, "polls only": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			login := b.db.Login(t, "oarlock_worker")
			b.put(t, "name: child\nsteps: [{id: a, run: 'echo child'}]\n")
			b.put(t, "name: all\nsteps: [{id: a, run: 'yes | head -c 3000000'}, {id: b, action: dag.run, with: {dag: child}}, {id: c, action: noop}]\n")
			worker := *b
			worker.db = &pgtest.DB{URL: login}
			worker.start(t, embed.Config{Database: queue.Config{PollOnly: pollOnly}, Commands: &exec.Config{}}, nil)
			for range 3 {
				b.run(t, "all")
			}
			want, most := queue.Connections(pollOnly), 0
			count := sessionsOf(t, b, login)
			for end := time.Now().Add(time.Minute); most < want-1; { // the pool opens a second connection only when it is needed
				if most = max(most, count()); time.Now().After(end) {
					t.Fatalf("a worker has %d connections, and says %d", most, want)
				}
			}
			if most > want {
				t.Errorf("a worker has %d connections, and says %d", most, want)
			}
		})
	}
}

// sessionsOf counts the sessions of a login.
func sessionsOf(t *testing.T, b *bench, login string) func() int {
	t.Helper()
	u, err := url.Parse(login)
	if err != nil {
		t.Fatal(err)
	}
	statement, err := os.ReadFile("testdata/sessions.sql")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), b.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return func() (n int) {
		if err := conn.QueryRow(t.Context(), string(statement), u.User.Username()).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}
