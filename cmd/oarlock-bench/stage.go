package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/procfs"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/embed"
)

var unfinishedSQL = sql.Named("bench/ask_unfinished")

// Stage holds the databases, workers and files of one case. All are gone afterwards.
type Stage struct {
	*Lab

	name string
	ends []func() error
}

func (l *Lab) stage(name string) *Stage { return &Stage{Lab: l, name: name} }

// later has end called when the stage ends. The function that was added last is called first.
func (s *Stage) later(end func() error) { s.ends = append(s.ends, end) }

func (s *Stage) close() error {
	var errs []error
	for _, end := range slices.Backward(s.ends) {
		errs = append(errs, end())
	}
	s.ends = nil
	return errors.Join(errs...)
}

// folder makes a folder below dir, or below the lab's folder if dir is "". The stage removes it at its end.
func (s *Stage) folder(dir string) (string, error) {
	made, err := os.MkdirTemp(orElse(dir, s.dir), s.name+"-")
	if err == nil {
		s.later(func() error { return os.RemoveAll(made) }) //nolint:gosec // the stage made it
	}
	return made, err
}

// Database is a migrated database that one side uses alone.
type Database struct {
	*queue.Store

	name     string
	url      string    // URL as the database's owner
	worker   string    // URL as a worker
	conn     *pgx.Conn // connection of the measured client
	asker    *pgx.Conn // for queries that belong to no side
	counting bool
}

// database makes a database with the DAGs of these sources, and connects to it. The stage drops it at its end.
func (s *Stage) database(ctx context.Context, sources ...string) (*Database, error) {
	s.made++
	d := &Database{name: fmt.Sprintf("bench_%d", s.made), counting: s.counting}
	if err := s.exec(ctx, createDatabaseSQL, "{name}", d.name, "{template}", templateName); err != nil {
		return nil, err
	}
	s.later(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		return s.exec(ctx, dropDatabaseSQL, "{name}", d.name)
	})
	d.url = s.server.URL(d.name)
	var err error
	if d.worker, err = s.workerURL(d.name); err != nil {
		return nil, err
	}
	if d.conn, err = s.connect(ctx, d, nil); err != nil {
		return nil, err
	}
	if d.asker, err = s.connect(ctx, d, unnoticed); err != nil {
		return nil, err
	}
	if d.Store, err = queue.Open(ctx, queue.Config{URL: d.url}); err != nil {
		return nil, err
	}
	s.later(func() error { d.Close(); return nil })
	for _, source := range sources {
		if err := d.put(ctx, source); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// unnoticed are the settings for queries during a measurement: they keep the queries from scanning tables.
var unnoticed = map[string]string{"enable_seqscan": "off", "jit": "off"}

// connect connects to a database as its owner, with these settings of the session. The stage closes the connection at its end.
func (s *Stage) connect(ctx context.Context, d *Database, params map[string]string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(d.url)
	if err != nil {
		return nil, err
	}
	maps.Copy(config.RuntimeParams, params)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s.later(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		return conn.Close(ctx)
	})
	return conn, nil
}

func (d *Database) put(ctx context.Context, source string) error {
	spec, err := dagspec.Parse("bench.yaml", []byte(source))
	if err != nil {
		return err
	}
	_, err = d.PutDAG(ctx, spec, source, "bench.yaml")
	return err
}

// enqueue requests n runs of a DAG at once, and returns their ids.
func (d *Database) enqueue(ctx context.Context, dag string, n int) ([]queue.RunID, error) {
	return d.EnqueueMany(ctx, queue.Bulk{DAG: dag, Params: make([]any, n)})
}

// A query takes time from the measured work. So until asks once a millisecond at most, and pauses for at least a hundredth
// of the time that has passed: that bounds the error of a figure.
const (
	askEvery = time.Millisecond
	askShare = 100
)

// settled waits until no run is queued or driven.
func (d *Database) settled(ctx context.Context) error { return d.until(ctx, unfinishedSQL) }

// burst requests runs at once and waits until all are over. It returns the id of the first one, and the time from the end of the
// request to that moment.
func (d *Database) burst(ctx context.Context, dag string, runs int) (first queue.RunID, took time.Duration, err error) {
	ids, err := d.enqueue(ctx, dag, runs)
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	err = d.settled(ctx)
	return ids[0], time.Since(begun), err
}

// until sends a question, a query that returns a boolean, again and again until the answer is false. It returns the cause if ctx
// ends first.
func (d *Database) until(ctx context.Context, question string, args ...any) error {
	for begun := time.Now(); ; {
		var left bool
		if err := d.asker.QueryRow(ctx, question, args...).Scan(&left); err != nil || !left {
			return err
		}
		select {
		case <-time.After(max(askEvery, time.Since(begun)/askShare)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// busy are the settings of a worker with a high load.
var busy = embed.Config{Slots: 512}

var busySettings = []string{"oarlock: slots 512; else defaults, embedded in this process"}

// defaultSettings describe the defaults of `oarlock worker`.
var defaultSettings = []string{"oarlock: defaults, embedded in this process"}

// embed starts a worker in this process, with bodies as its functions by name, and returns at once. The worker runs until the stage
// ends.
func (s *Stage) embed(ctx context.Context, d *Database, config embed.Config, bodies map[string]worker.Func) error {
	folder, err := s.folder("")
	if err != nil {
		return err
	}
	config.Folder, config.Database = folder, queue.Config{URL: d.worker}
	w, err := embed.New(config)
	if err != nil {
		return err
	}
	for name, body := range bodies {
		w.Handle(name, body)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.WithoutCancel(ctx)) }()
	s.later(func() error {
		w.StopNow()
		if err := <-ended; err != nil {
			return fmt.Errorf("embedded worker: %w", err)
		}
		return nil
	})
	return nil
}

// warm requests runs of a DAG and waits for their end, so that connections, plans and definitions are ready before a measurement.
func (d *Database) warm(ctx context.Context, dag string, runs int) error {
	if _, err := d.enqueue(ctx, dag, runs); err != nil {
		return err
	}
	return d.settled(ctx)
}

// defaultConfig has the defaults of `oarlock worker`.
var defaultConfig embed.Config

// stopPatience is how long a worker may take to stop before it is killed.
const stopPatience = 20 * time.Second

// process is a separate `oarlock worker`: its guard and its driver process.
type process struct {
	cmd   *exec.Cmd
	said  bytes.Buffer
	ended chan struct{}
}

// startWorker starts a worker process with default settings, and returns at once. The process runs until the stage ends.
func (s *Stage) startWorker(d *Database, name string) (*process, error) {
	state, err := s.folder("")
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(s.program, "worker"), ended: make(chan struct{})}
	p.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + state, "OARLOCK_NAME=" + name, "OARLOCK_STATE_DIR=" + state, "OARLOCK_DATABASE_URL=" + d.worker,
	}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = &p.said, &p.said, state
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.program, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	s.later(p.stop)
	return p, nil
}

// stop ends the worker and waits for that. It sends SIGTERM twice, so that the worker hands on its running tasks at once. If that
// takes longer than stopPatience, it kills the worker and returns an error.
func (p *process) stop() error {
	for range 2 {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(100 * time.Millisecond):
		}
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopPatience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("oarlock worker did not stop within %s", stopPatience)
	}
}

// workersLive waits until at least n workers are registered. It returns an error if one of the processes ends before that.
func (d *Database) workersLive(ctx context.Context, n int, processes ...*process) error {
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		workers, err := d.Workers(ctx)
		if err != nil || len(workers) >= n {
			tick.Stop()
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for _, p := range processes {
			select {
			case <-p.ended:
				return fmt.Errorf("oarlock worker ended: %s", p.said.String())
			default:
			}
		}
	}
}

// family returns the process ids of a worker's guard and driver process. It recognises the driver by its program, so it
// leaves out task processes that the guard adopted.
func (p *process) family() ([]int, error) {
	guard := p.cmd.Process.Pid
	children, _ := procfs.Children(guard)
	for _, child := range children {
		if sameProgram(guard, child) {
			return []int{guard, child}, nil
		}
	}
	return nil, fmt.Errorf("the driver process of worker %d: %w", guard, errNotHere)
}

func sameProgram(a, b int) bool {
	one, err1 := os.Readlink(procfs.Path(a, "exe"))
	other, err2 := os.Readlink(procfs.Path(b, "exe"))
	return err1 == nil && err2 == nil && one == other
}

// processor returns the processor time that the worker has used, in its own code and in the kernel.
func (p *process) processor() (used time.Duration, err error) {
	pids, err := p.family()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		stat, err := procStatOf(pid)
		if err != nil {
			return 0, err
		}
		used += stat.Used
	}
	return used, nil
}
