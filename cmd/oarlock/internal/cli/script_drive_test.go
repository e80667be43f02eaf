package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
)

// scriptPatience bounds each of a script's own commands.
const scriptPatience = time.Minute

// playing are the commands with which a script makes and drives runs, in the database of DATABASE_URL:
//
//	runs DAG N [PARAM=VALUE…]    ask for N runs
//	drive [STEP=N|STEP={…}…]     be a worker until nothing is due: bodies end at once, those named with this exit code or
//	                             these outputs
//	driven [STEP=N…]             the same, once something is due
//	followed                     wait until a command follows a log
//	hold                         claim what is due and keep it, as a busy worker
//
// A body writes "STEP out" and "STEP err" to its log, in that order, and approvals wait.
func (d *databases) playing() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"runs":     d.runs,
		"drive":    func(ts *testscript.TestScript, _ bool, args []string) { d.drive(ts, args, 0) },
		"driven":   func(ts *testscript.TestScript, _ bool, args []string) { d.drive(ts, args, 1) },
		"hold":     d.hold,
		"followed": d.followed,
	}
}

func (d *databases) runs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: runs DAG N [PARAM=VALUE…]")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	params, err := pairs("runs", args[2:])
	ts.Check(err)
	if params == nil {
		params = map[string]string{}
	}
	store, ctx := d.open(ts)
	for range n {
		_, err := store.Enqueue(ctx, queue.Request{DAG: args[0], Params: params, Manual: true})
		ts.Check(err)
	}
}

func (d *databases) drive(ts *testscript.TestScript, args []string, atLeast int) {
	codes, err := pairs("drive", args)
	ts.Check(err)
	store, ctx := d.open(ts)
	s := d.register(ctx, ts, store)
	p := &player{session: s, ts: ts, ctx: ctx, codes: codes}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for driven := 0; ; {
		if driven == 0 { // later a run may wait for a timer, which belongs to the script's next command
			_, err := s.Look(ctx, queue.Load{})
			ts.Check(err)
			_, err = s.DoChores(ctx)
			ts.Check(err)
		}
		_, err := s.Attend(ctx)
		ts.Check(err)
		polled, err := s.Poll(ctx, queue.Want{Slots: 100, Free: 100})
		ts.Check(err)
		for _, claim := range polled.Claims {
			_, err := storetest.Drive(ctx, storetest.Session{Claimer: s, Reader: s, Journal: s, Lease: s, LogSink: s}, claim, storetest.Behaviour{
				Body: p.body,
				Wait: func(storetest.Body) dagrun.Time { return 0 },
			})
			ts.Check(err)
		}
		driven += len(polled.Claims)
		if len(polled.Claims) == 0 && driven >= atLeast {
			break
		}
		<-tick.C
	}
	ts.Check(s.Close(ctx))
}

func (d *databases) hold(ts *testscript.TestScript, _ bool, _ []string) {
	store, ctx := d.open(ts)
	s := d.register(ctx, ts, store)
	_, err := s.Poll(ctx, queue.Want{Slots: 100, Free: 100})
	ts.Check(err)
	_, err = s.Renew(ctx, queue.Vitals{Busy: 1})
	ts.Check(err)
	d.tb.Cleanup(func() { _ = s.Close(context.WithoutCancel(ctx)) })
}

func (d *databases) followed(ts *testscript.TestScript, _ bool, _ []string) {
	_, ctx := d.open(ts)
	conn, err := pgx.Connect(ctx, ts.Getenv("DATABASE_URL"))
	ts.Check(err)
	defer conn.Close(ctx)
	followed, err := os.ReadFile(filepath.Join("testdata", "sql", "followed.sql"))
	ts.Check(err)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for is := false; !is; <-tick.C {
		ts.Check(conn.QueryRow(ctx, string(followed)).Scan(&is))
	}
}

// open opens a store until the test ends, with a context that ends with the test or after scriptPatience.
func (d *databases) open(ts *testscript.TestScript) (*queue.Store, context.Context) {
	ctx, cancel := context.WithTimeout(d.tb.Context(), scriptPatience)
	d.tb.Cleanup(cancel)
	store, err := queue.Open(ctx, queue.Config{URL: ts.Getenv("DATABASE_URL")})
	ts.Check(err)
	d.tb.Cleanup(store.Close)
	return store, ctx
}

func (d *databases) register(ctx context.Context, ts *testscript.TestScript, store *queue.Store) *queue.Session {
	s, err := store.Register(ctx, queue.Worker{
		Name: "w1", Host: "h", BootID: "b", PID: 1, Version: "v", Slots: 8, Containment: "none",
		Offers: []string{"process", "approval", "action:approval", "on_error", "handlers", "foreach"},
	})
	ts.Check(err)
	return s
}

// player executes bodies.
type player struct {
	session *queue.Session
	ts      *testscript.TestScript
	ctx     context.Context // of one command of a script
	codes   map[string]string
}

// body writes to the log of its attempt, and ends as the script says.
func (p *player) body(b storetest.Body) dagrun.Result {
	now := time.Now()
	chunk := queue.Chunk{
		Run: b.Claim.Run, Task: b.Task, Attempt: b.Attempt, At: now, Stream: queue.StreamStdout, Data: []byte(b.Name + " out\n"),
		Day: queue.LogDay(dagrun.Time(now.UnixMilli())),
	}
	all := slices.Repeat([]queue.Chunk{chunk}, 3)
	all[1].Seq, all[1].Stream, all[1].Data = 1, queue.StreamStderr, []byte(b.Name+" err\n")
	all[2].Seq, all[2].Stream, all[2].Data, all[2].Final, all[2].Reason = 2, queue.StreamOarlock, []byte{}, true, "exit"
	p.ts.Check(p.session.AppendLogs(p.ctx, all))
	step, _, _ := strings.Cut(b.Name, "/")
	code, given := p.codes[step]
	if !given {
		return dagrun.Result{HasExit: true}
	}
	if strings.HasPrefix(code, "{") {
		return dagrun.Result{HasExit: true, Outputs: dagrun.JSON(code)}
	}
	n, err := strconv.Atoi(code)
	p.ts.Check(err)
	return dagrun.Result{Kind: dagrun.KindExit, ExitCode: n, HasExit: true}
}
