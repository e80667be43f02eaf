package migrations_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/sql"
)

// lose marks a worker as lost as its peers do, in the background, and returns the connection that does it.
func (b bundle) lose(t *testing.T, c *caller, tx pgx.Tx) (done chan error) {
	t.Helper()
	done = make(chan error, 1)
	go func() {
		_, err := tx.Exec(t.Context(), sql.Named("queue/lose"), pgx.StrictNamedArgs{"worker": c.id, "beat": nil, "by": nil})
		done <- err
	}()
	return done
}

// blocked waits until a transaction waits for another.
func (b bundle) blocked(t *testing.T, conn *pgx.Conn, by *pgx.Conn) {
	t.Helper()
	await.True(t, "a session waits for another", func() bool {
		return get[bool](t, b.conn, "SELECT $1::int = ANY (pg_blocking_pids($2))", int(by.PgConn().PID()), int(conn.PgConn().PID()))
	})
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A worker is found lost while the call of another grants it a permit.
func TestPermits_LossWaitsForAGrant(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'heavy', slots => 1, rate => 1, per => '1 ms'")
	giver, taker := b.caller(t, "giver"), b.caller(t, "taker")
	giver.wants(t, "1", want(1, "heavy"))
	taker.wants(t, "", want(1, "heavy"))
	grant, loss := b.begin(t), b.begin(t)
	giver.call++
	must(t, grant, askSQL, giver.id, giver.call, "[]")
	done := b.lose(t, taker, loss)
	b.blocked(t, loss.Conn(), grant.Conn())
	commit(t, grant)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	commit(t, loss)
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.permits"); n != 0 {
		t.Errorf("%d permits leaked", n)
	}
	giver.wants(t, "2", want(2, "heavy"))
}

// A call that would grant a permit to a worker that is being lost passes over it, without waiting.
func TestPermits_AGrantPassesOverLoss(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'heavy', slots => 1")
	giver, taker, next := b.caller(t, "giver"), b.caller(t, "taker"), b.caller(t, "next")
	giver.wants(t, "1", want(1, "heavy"))
	taker.wants(t, "", want(1, "heavy"))
	next.wants(t, "", want(1, "heavy"))
	loss := b.begin(t)
	if err := <-b.lose(t, taker, loss); err != nil {
		t.Fatal(err)
	}
	giver.wants(t, "") // waits for no lock, otherwise it fails
	b.has(t, next, "1")
	commit(t, loss)
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.permits"); n != 1 {
		t.Errorf("%d permits are left, want 1", n)
	}
}

// A worker that is being lost while it calls gets no permit.
func TestPermits_ACallWaitsForLoss(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'heavy', slots => 1")
	c := b.caller(t, "one")
	loss, conn, granted := b.begin(t), connect(t, b.db.URL), make(chan *string, 1)
	if err := <-b.lose(t, c, loss); err != nil {
		t.Fatal(err)
	}
	wanted := jsonOf(t, []ticket{want(1, "heavy")})
	go func() {
		text := new(string)
		_ = conn.QueryRow(t.Context(), askSQL, c.id, 1, wanted).Scan(&text)
		granted <- text
	}()
	b.blocked(t, conn, loss.Conn())
	commit(t, loss)
	if text := <-granted; text != nil {
		t.Errorf("the answer is %s", *text)
	}
}

// A call that is under way holds up the loss of its worker.
func TestPermits_LossWaitsForACall(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'heavy', slots => 1")
	c := b.caller(t, "one")
	call, loss := b.begin(t), b.begin(t)
	must(t, call, askSQL, c.id, 1, jsonOf(t, []ticket{want(1, "heavy")}))
	done := b.lose(t, c, loss)
	b.blocked(t, loss.Conn(), call.Conn())
	commit(t, call)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	commit(t, loss)
	b.has(t, c, "")
}

// While another call has the second pool of a waiter, a call passes over the waiter without waiting, and the waiter gets the permit itself.
func TestPermits_WaitForNoFurtherPool(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'a', slots => 1", "'b', slots => 1")
	one, both := b.caller(t, "one"), b.caller(t, "both")
	one.wants(t, "1", want(1, "b"))
	both.wants(t, "", want(1, "a", "b"))
	tx := b.begin(t)
	must(t, tx, "SELECT oarlock.lock_pool('a')")
	one.wants(t, "")
	b.has(t, both, "")
	one.wants(t, "2", want(2, "b"))
	b.age(t, both, 1, "31 s")
	one.wants(t, "", want(3, "b")) // kept for the one that is overdue
	commit(t, tx)
	both.wants(t, "1", want(1, "a", "b"))
}

// group runs functions at once.
type group struct{ ends []chan error }

func (g *group) run(f func() error) {
	end := make(chan error, 1)
	g.ends = append(g.ends, end)
	go func() { end <- f() }()
}

// wait waits for all functions, none of which may fail.
func (g *group) wait(t *testing.T) {
	t.Helper()
	for _, end := range g.ends {
		if err := <-end; err != nil {
			t.Error(err)
		}
	}
}

// Calls that name the same pools in opposite order, and grant permits to each other, never wait for each other.
func TestPermits_PoolsInOppositeOrder(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'a', slots => 1", "'b', slots => 1, per_key => true", "'c', slots => 2, rate => 1000, per => '1 ms', burst => 1000")
	const rounds = 150
	var all group
	for n, uses := range []string{"a b/x c", "c b/x a", "b/y c", "c b/y a"} {
		c := b.caller(t, fmt.Sprint("w", n))
		conn := connect(t, b.db.URL)
		var calls []string
		for i := range int64(rounds) {
			calls = append(calls, jsonOf(t, []ticket{want(i/2, strings.Fields(uses)...), want(rounds+i, strings.Fields(uses)...)}))
		}
		all.run(func() error {
			for i, wanted := range calls {
				if _, err := conn.Exec(t.Context(), askSQL, c.id, i+1, wanted); err != nil {
					return err
				}
			}
			return nil
		})
	}
	all.wait(t)
}

// Five philosophers sit around a table with five forks, and each eats with the two beside it.
func TestPermits_PhilosophersEat(t *testing.T) {
	t.Parallel()
	b := api(t)
	const table, meals = 5, 200
	var eats [table]atomic.Bool
	var all group
	for n := range table {
		b.setPools(t, fmt.Sprintf("'fork%d', slots => 1", n))
	}
	for n := range table {
		c, conn := b.caller(t, fmt.Sprint("p", n)), connect(t, b.db.URL)
		call := int64(0)
		ask := func(wanted string) (granted bool, err error) {
			call++
			err = conn.QueryRow(t.Context(), "SELECT coalesce(("+askSQL+" #>> '{0,granted}')::bool, false)", c.id, call, wanted).Scan(&granted)
			return granted, err
		}
		var wanted []string
		for meal := range int64(meals) {
			wanted = append(wanted, jsonOf(t, []ticket{want(meal, fmt.Sprint("fork", n), fmt.Sprint("fork", (n+1)%table))}))
		}
		all.run(func() error {
			for _, meal := range wanted {
				for granted := false; !granted; {
					var err error
					if granted, err = ask(meal); err != nil {
						return err
					}
				}
				eats[n].Store(true)
				if eats[(n+1)%table].Load() || eats[(n+table-1)%table].Load() {
					return fmt.Errorf("philosopher %d eats beside another", n)
				}
				eats[n].Store(false)
				if n%2 == 0 { // the others give back with the next question
					if _, err := ask("[]"); err != nil {
						return err
					}
				}
			}
			_, err := ask("[]")
			return err
		})
	}
	all.wait(t)
}
