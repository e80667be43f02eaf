package embed_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/embed"
	"github.com/oarlock-dev/oarlock/worker/exec"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, // goroutines that a test package keeps for all tests
		goleak.IgnoreAnyFunction("github.com/oarlock-dev/oarlock/internal/pglocal.(*Server).watch"))
}

func (b *bench) run(t *testing.T, dag string) queue.RunID {
	t.Helper()
	run, err := b.Enqueue(t.Context(), queue.Request{DAG: dag})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Await(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	return run
}

// text returns the log of a step.
func (b *bench) text(t *testing.T, run queue.RunID, step string) string {
	t.Helper()
	chunks, err := b.ReadLogs(t.Context(), queue.LogQuery{Run: run, Step: step})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for i := range chunks {
		text.Write(chunks[i].Data)
	}
	return text.String()
}

func (b *bench) task(t *testing.T, run queue.RunID, step string) queue.Task {
	t.Helper()
	tasks, err := b.Tasks(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tasks {
		if tasks[i].Step == step {
			return tasks[i]
		}
	}
	t.Fatalf("run %d has no task of %s", run, step)
	return queue.Task{}
}

func TestRig_ExecutesGoFunctions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, `
name: shop
steps:
  - {id: charge, action: charge, with: {amount: 42}, outputs: [receipt]}
  - {id: ship, depends: [charge], action: ship, with: {receipt: '${steps.charge.outputs.receipt}'}}
  - {id: fail, action: fail, retry_policy: {limit: 3, interval: 1ms}, continue_on: failed}
  - {id: panic, action: panic, continue_on: failed}
`)
	b.start(t, embed.Config{}, func(r *embed.Rig) {
		r.Handle("charge", charge)
		r.Handle("ship", func(_ context.Context, task *worker.Task) (worker.Outputs, error) {
			fmt.Fprintf(task.Stdout, "shipping %v\n", task.Resolved.With["receipt"])
			return nil, nil
		})
		r.Handle("fail", func(context.Context, *worker.Task) (worker.Outputs, error) {
			return nil, worker.Permanent(errors.New("no use"))
		})
		r.Handle("panic", func(context.Context, *worker.Task) (worker.Outputs, error) { panic("ouch") })
	})
	run := b.run(t, "shop")
	if text, want := b.text(t, run, "ship"), fmt.Sprintf("shipping r-%d\n", run); text != want {
		t.Errorf("ship logged %q, want %q", text, want)
	}
	if text := b.text(t, run, "charge"); !strings.Contains(text, "msg=charging amount=42") {
		t.Errorf("charge logged %q, not what it gave its logger", text)
	}
	if task := b.task(t, run, "fail"); task.Attempt != 1 || task.Reason != "no use" {
		t.Errorf("fail ended at attempt %d: %s; want one that is final", task.Attempt, task.Reason)
	}
	if task := b.task(t, run, "panic"); task.FailureKind != "panic" || !strings.Contains(b.text(t, run, "panic"), "embed_test.go") {
		t.Errorf("panic ended as %s, and logged %q", task.FailureKind, b.text(t, run, "panic"))
	}
}

// Lines are numbered by their beginnings, regardless of the pieces in which a task writes them.
func TestRig_NumbersTheLinesOfLogs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "name: lines\nsteps: [{id: talk, action: talk}]\n")
	const lines = 3000 // 100 KiB of standard output
	b.start(t, embed.Config{}, func(r *embed.Rig) {
		r.Handle("talk", func(_ context.Context, task *worker.Task) (worker.Outputs, error) {
			for i := range lines {
				fmt.Fprintf(task.Stdout, "line %d, ", i)
				if i == lines/2 {
					fmt.Fprint(task.Stderr, "one\ntwo")
				}
				fmt.Fprintf(task.Stdout, "%s\n", strings.Repeat("x", 24))
			}
			return nil, nil
		})
	})
	run := b.run(t, "lines")
	var all []queue.LogLine
	for from, total := int64(1), int64(1); from <= total; {
		w, err := b.LogWindow(t.Context(), queue.LogWindowQuery{Run: run, Step: "talk", From: from})
		if err != nil || !w.Final || w.Reason != "succeeded" || w.End <= from {
			t.Fatalf("from %d: %+v, %v", from, w, err)
		}
		all, from, total = append(all, w.Lines...), w.End, w.Total
	}
	text := map[queue.Stream]string{}
	for i, line := range all {
		if line.Number != int64(i+1) {
			t.Fatalf("line %d has number %d", i+1, line.Number)
		}
		text[line.Stream] += string(line.Text) + "\n"
	}
	if len(all) != lines+2 || text[queue.StreamStderr] != "one\ntwo\n" {
		t.Errorf("%d lines, standard error %q", len(all), text[queue.StreamStderr])
	}
	if got := b.text(t, run, "talk"); len(got) != len(text[queue.StreamStdout])+len("one\ntwo") {
		t.Errorf("%d bytes of standard output in lines, %d in chunks of both", len(text[queue.StreamStdout]), len(got))
	}
}

func TestRig_StepsRunInTheWorkersShellUnlessTheyNameOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "name: d\nsteps:\n  - {id: a, run: text}\n  - {id: b, run: text, shell: [/bin/echo, step]}\n")
	b.start(t, embed.Config{Commands: &exec.Config{Shell: []string{"/bin/echo", "worker"}}}, nil)
	run := b.run(t, "d")
	if a, other := b.text(t, run, "a"), b.text(t, run, "b"); a != "worker -c text\n" || other != "step -c text\n" {
		t.Errorf("a logged %q, b %q", a, other)
	}
}

func TestRig_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	url := queue.Config{URL: "postgres://127.0.0.1:1/x"}
	for name, c := range map[string]embed.Config{
		"no database": {},
		"slots":       {Database: url, Slots: -1},
	} {
		if _, err := embed.New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestRig_WarnsOfQueuesThatNobodyMade(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "name: d\nsteps: [{id: a, action: noop}]\n")
	said := make(chan string, 100)
	log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		said <- string(p)
		return len(p), nil
	}), &slog.HandlerOptions{Level: slog.LevelWarn}))
	b.start(t, embed.Config{Queues: []string{"default", "gold"}, Log: log}, nil)
	b.run(t, "d") // the worker serves the queue that exists
	select {
	case got := <-said:
		if !strings.Contains(got, `msg="no queue gold yet: `) || !strings.Contains(got, "`oarlock queues set gold`") || len(said) > 0 {
			t.Errorf("it said %s, and %d lines more", got, len(said))
		}
	default:
		t.Error("it served a queue and did not warn of the other")
	}
}

// A worker that waits for its database can be told to stop.
func TestRig_StopsWithoutADatabase(t *testing.T) {
	t.Parallel()
	said := make(chan struct{}, 100)
	r, err := embed.New(embed.Config{Database: queue.Config{URL: "postgres://127.0.0.1:1/x"}, Folder: t.TempDir(), Log: signalling(said)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(t.Context()) }()
	select {
	case <-said: // the log says that the database is not there
	case err := <-ended:
		t.Fatalf("it did not wait: %v", err)
	}
	r.Stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// signalling is a logger that tells when something is logged.
func signalling(said chan<- struct{}) *slog.Logger {
	return slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		said <- struct{}{}
		return len(p), nil
	}), nil))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// The changes of a step in the run's own database become durable together with the record of the step.
func TestRig_CommitsSQLWithItsOutcome(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, `
name: ledger
steps:
  - {id: query, action: postgres.query, with: {sql: "SELECT 40 + $1 AS n", params: [2]}}
  - {id: post, action: post, depends: [query]}
`)
	b.start(t, embed.Config{}, func(r *embed.Rig) {
		r.HandleTx("post", func(ctx context.Context, tx pgx.Tx, _ *worker.Task) (out worker.Outputs, err error) {
			var at int64
			err = tx.QueryRow(ctx, "SELECT count(*) FROM oarlock.tasks WHERE settled IS NOT NULL").Scan(&at)
			return worker.Outputs{"settled": at}, err
		})
	})
	run := b.run(t, "ledger")
	if task := b.task(t, run, "query"); task.State != "succeeded" || !strings.Contains(string(task.Outputs), `"n": 42`) {
		t.Errorf("query is %s (%s): %s", task.State, task.Reason, task.Outputs)
	}
	if task := b.task(t, run, "post"); task.State != "succeeded" || !strings.Contains(string(task.Outputs), `"settled": 1`) {
		t.Errorf("post is %s (%s): %s", task.State, task.Reason, task.Outputs)
	}
}

// A program sets up its pool in code: the text from which the pool was parsed does not lead to a server.
func TestRig_ConnectsSQLTasksAsItsPoolDoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	there, err := pgxpool.ParseConfig(b.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgxpool.ParseConfig("postgres://nobody@127.0.0.1:1/nowhere?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.Host, config.ConnConfig.Port, config.ConnConfig.Database = there.ConnConfig.Host, there.ConnConfig.Port, there.ConnConfig.Database
	config.ConnConfig.User, config.ConnConfig.Password = there.ConnConfig.User, there.ConnConfig.Password
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b.put(t, "name: q\nsteps: [{id: a, action: postgres.query, with: {sql: SELECT 42 AS n}}]\n")
	b.start(t, embed.Config{Database: queue.Config{Pool: pool}}, nil)
	if task := b.task(t, b.run(t, "q"), "a"); task.State != "succeeded" || !strings.Contains(string(task.Outputs), `"n": 42`) {
		t.Errorf("the task is %s (%s): %s", task.State, task.Reason, task.Outputs)
	}
}

func TestRig_AnswersHealthChecks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "name: hello\nsteps: [{id: a, action: hello}]\n")
	address := make(chan string, 1)
	b.start(t, embed.Config{Listen: "127.0.0.1:0", Log: slog.New(&attribute{"address", address})}, func(r *embed.Rig) {
		r.Handle("hello", func(context.Context, *worker.Task) (worker.Outputs, error) { return nil, nil })
	})
	b.run(t, "hello")
	base := "http://" + <-address
	if code, text := get(t, base+"/readyz"); code != http.StatusOK {
		t.Errorf("/readyz says %d: %s", code, text)
	}
	for _, want := range []string{`oarlock_tasks_total{state="succeeded"} 1`, `oarlock_attempts_total{body="hello",outcome="succeeded"} 1`} {
		for end := time.Now().Add(time.Minute); ; { // counted a moment after the database has it
			_, text := get(t, base+"/metrics")
			if strings.Contains(text, want) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("/metrics has no %s:\n%s", want, text)
			}
		}
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// attribute is a logger that passes on an attribute when it first occurs.
type attribute struct {
	name  string
	found chan<- string
}

func (a *attribute) Enabled(context.Context, slog.Level) bool { return true }
func (a *attribute) WithAttrs([]slog.Attr) slog.Handler       { return a }
func (a *attribute) WithGroup(string) slog.Handler            { return a }

func (a *attribute) Handle(_ context.Context, record slog.Record) error {
	record.Attrs(func(attr slog.Attr) bool {
		if attr.Key == a.name {
			select {
			case a.found <- attr.Value.String():
			default:
			}
		}
		return true
	})
	return nil
}
