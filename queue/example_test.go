package queue_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// stage is a database for an example. An example has no testing.TB, so an error ends the process.
type stage struct {
	testing.TB
	clean []func()
}

func (*stage) Helper()                           {}
func (*stage) Context() context.Context          { return context.Background() }
func (s *stage) Cleanup(f func())                { s.clean = append(s.clean, f) }
func (*stage) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (*stage) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// setStage makes a database in which the DAG report is registered.
func setStage(ctx context.Context) (url string, undo func()) {
	s := &stage{}
	url = pgtest.New(s).URL
	store, err := queue.Open(ctx, queue.Config{URL: url})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	source := "name: report\nparams: [{name: order, type: integer, required: true}]\nsteps: [{id: render, run: \"true\"}]\n"
	spec, err := dagspec.Parse("report.yaml", []byte(source))
	if err != nil {
		panic(err)
	}
	if _, err := store.PutDAG(ctx, spec, source, "report.yaml"); err != nil {
		panic(err)
	}
	return url, func() {
		for _, f := range s.clean {
			f()
		}
	}
}

// An application requests a run in the transaction that writes its own rows. Either both exist afterwards or neither.
func ExampleEnqueueTx() {
	ctx := context.Background()
	url, undo := setStage(ctx)
	defer undo()

	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		panic(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE TABLE orders (id int PRIMARY KEY, item text)"); err != nil {
		panic(err)
	}

	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES ($1, $2)", 7, "oars"); err != nil {
			return err
		}
		run, err := queue.EnqueueTx(ctx, tx, queue.Request{DAG: "report", Params: map[string]int{"order": 7}, Key: "order-7"})
		fmt.Println("run", run)
		return err
	})
	fmt.Println("committed:", err == nil)
	// Output:
	// run 1
	// committed: true
}

// The same with database/sql, and with a transaction that rolls back: the run disappears with it.
func ExampleEnqueueSQL() {
	ctx := context.Background()
	url, undo := setStage(ctx)
	defer undo()

	db, err := sql.Open("pgx", url)
	if err != nil {
		panic(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		panic(err)
	}
	run, err := queue.EnqueueSQL(ctx, tx, queue.Request{DAG: "report", Params: map[string]int{"order": 7}})
	if err != nil {
		panic(err)
	}
	if err := tx.Rollback(); err != nil {
		panic(err)
	}

	store, err := queue.Open(ctx, queue.Config{URL: url})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	_, err = store.Get(ctx, run)
	fmt.Println(err)
	// Output:
	// get a run: there is no run 1, or it is not yours: not found
}

// With a Key a request may be repeated after any failure.
func ExampleStore_Enqueue() {
	ctx := context.Background()
	url, undo := setStage(ctx)
	defer undo()

	store, err := queue.Open(ctx, queue.Config{URL: url})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	request := queue.Request{DAG: "report", Params: map[string]int{"order": 7}, Key: "order-7"}
	first, err := store.Enqueue(ctx, request)
	if err != nil {
		panic(err)
	}
	again, err := store.Enqueue(ctx, request)
	fmt.Println(first == again, err)

	request.Params = map[string]int{"order": 8}
	_, err = store.Enqueue(ctx, request)
	fmt.Println(err)
	// Output:
	// true <nil>
	// enqueue: run_key "order-7" belongs to run 1, which was asked for with another dag, params or overrides (OA004): use a new key for each request, and repeat a request unchanged
}

// Each customer of an application has a schedule, which the application steers by its key.
func ExampleStore_PutSchedule() {
	ctx := context.Background()
	url, undo := setStage(ctx)
	defer undo()

	store, err := queue.Open(ctx, queue.Config{URL: url})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	_, next, err := store.PutSchedule(ctx, "report", dagspec.Schedule{
		Name: "acme nightly", Cron: "30 3 * * 1-5", Timezone: "Europe/Paris", Params: map[string]any{"order": 7},
	})
	if err != nil {
		panic(err)
	}
	acme := queue.ScheduleKey{DAG: "report", Name: "acme nightly"}
	times, err := store.FireTimes(ctx, acme, 3)
	fmt.Println(len(times), times[0].Equal(next), err)

	run, err := store.TriggerSchedule(ctx, acme, time.Date(2026, 11, 20, 2, 30, 0, 0, time.UTC))
	if err != nil {
		panic(err)
	}
	fires, err := store.Fires(ctx, acme, time.Time{}, 10)
	fmt.Println(fires[0].Outcome, fires[0].Run == run, err)

	fmt.Println(store.DropSchedule(ctx, acme))
	// Output:
	// 3 true <nil>
	// fired true <nil>
	// <nil>
}
