package integration

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/chaos/check"
	"github.com/oarlock-dev/oarlock/integration/chaos/traffic"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/procfs"
	"github.com/oarlock-dev/oarlock/queue"
)

//go:embed sql/*.sql
var chaosSQL embed.FS

// chaosStatement reads a file of sql and replaces {key}s, which are our own names.
func chaosStatement(name string, pairs ...string) string {
	text, err := chaosSQL.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // a name in this package is wrong
	}
	for i := 0; i < len(pairs); i += 2 {
		pairs[i] = "{" + pairs[i] + "}"
	}
	return strings.NewReplacer(pairs...).Replace(string(text))
}

// connect opens a connection for the test itself. Its timeouts are not among the faults.
func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	for _, name := range stepped {
		config.RuntimeParams[name] = "0"
	}
	return pgx.ConnectConfig(ctx, config)
}

// script sends a file of several statements.
func script(ctx context.Context, url, name string, pairs ...string) error {
	conn, err := connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.PgConn().Exec(ctx, chaosStatement(name, pairs...)).ReadAll()
	return err
}

// tick is how often a task writes that it lives.
const tick = 200 * time.Millisecond

// chaosLibrary is what tasks source, as in witness_test.go.
const chaosLibrary = `
see() { read -r up _ </proc/uptime; echo "$1 $OARLOCK_RUN_ID $OARLOCK_STEP ${OARLOCK_ITEM:--} $OARLOCK_ATTEMPT $OARLOCK_FENCE $OARLOCK_WORKER_ID $up" >>$DIR/witness; }
copy() { tee -a "$DIR/copies/$OARLOCK_RUN_ID:$OARLOCK_STEP:${OARLOCK_ITEM:-}:$OARLOCK_ATTEMPT"; }
talk() { i=0; while [ $i -lt $1 ]; do i=$((i+1)); echo "run $OARLOCK_RUN_ID $OARLOCK_STEP ${OARLOCK_ITEM:-}#$OARLOCK_ATTEMPT tick $n line $i"; done; }
work() { n=0; talk $2; while [ $n -lt $1 ]; do n=$((n+1)); sleep 0.2 || :; see tick; talk $2; done; }
body() { see start; work $1 $2 | copy; see end; exit $3; }
publish() { see publish; n=0; while [ $n -lt $1 ]; do n=$((n+1)); sleep 0.2 || :; see publishing; done; see published; }
flood() { see start; yes "run $OARLOCK_RUN_ID $OARLOCK_STEP#$OARLOCK_ATTEMPT says a lot, and means nothing by it" | head -c $(($1*1024)) | copy; see end; exit 0; }
leave() { setsid -f sleep 120 </dev/null >/dev/null 2>&1; (trap '' TERM; sleep 120 & exec sleep 120) </dev/null >/dev/null 2>&1 & }
`

// chaosBundle is the place where a seed is played: a database, workers behind proxies, clients.
type chaosBundle struct {
	*testBundle
	t     *testing.T
	lane  *lane
	scene scene
	name  string // of the database
	nodes []*pgcluster.Node
	units []*station
	takes int      // index of the node that takes writes
	lost  loss     // commits that a failover may lose
	urls  []string // addresses of nodes, since a stopped node cannot return its own
	disk  string   // the folder of a small disk; "": there is none

	clients   []*client
	stop      context.CancelFunc // ends the clients
	ctx       context.Context    // context of the clients
	atWork    sync.WaitGroup     // goroutines of clients and faults
	following sync.WaitGroup     // goroutines of tails

	mu      sync.Mutex
	faults  map[string]int
	waiting []awaited
	excused map[int]bool // driver processes with tasks that may live on
	asked   *answers
	maxStep time.Duration // the largest step of the clock
	broken  []string      // breaches found during the seed
	shared  check.Sharing // results of the sampler
}

// awaited is a fault that waits for its message.
type awaited struct {
	kind  string
	fault *netfault.Injected
	unit  *station      // nil: the message is a client's
	since time.Duration // when the sampler first saw that it had fired, by the sampler's clock
}

func newChaosBundle(t *testing.T, l *lane, seed uint64, scene scene) *chaosBundle {
	t.Helper()
	a := &chaosBundle{
		t: t, lane: l, scene: scene, name: fmt.Sprintf("chaos_%d", seed), nodes: []*pgcluster.Node{l.node},
		faults: map[string]int{}, excused: map[int]bool{}, asked: newAnswers(), lost: loss{over: make(chan struct{})},
	}
	if scene != asyncScene {
		close(a.lost.over)
	}
	a.ctx, a.stop = context.WithCancel(t.Context())
	t.Cleanup(a.stop)
	if scene == diskScene {
		a.disk = pgcluster.SmallDisk(t, 400<<20)
		a.nodes[0] = newChaosNode(t, pgcluster.StartIn(t, a.disk, chaosServer))
	}
	a.clone(t)
	if scene == syncScene || scene == asyncScene {
		a.addStandby(t)
	}
	for _, node := range a.nodes {
		a.urls = append(a.urls, node.URL())
	}
	a.testBundle = &testBundle{db: &pgtest.DB{URL: a.urlOf(nil, "")}, dir: t.TempDir()}
	for _, folder := range []string{"copies", "state"} {
		if err := os.Mkdir(filepath.Join(a.dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a.write(t, "lib", strings.ReplaceAll(chaosLibrary, "$DIR", a.dir))
	store, err := queue.Open(t.Context(), queue.Config{URL: a.db.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	a.Store = store
	t.Cleanup(a.removeCgroups)
	a.openClients(t)
	return a
}

// node returns the server that takes writes.
func (a *chaosBundle) node() *pgcluster.Node { return a.nodes[a.takes] }

// clone makes the seed's database.
func (a *chaosBundle) clone(t *testing.T) {
	t.Helper()
	node, ctx := a.node(), t.Context()
	for _, err := range []error{
		script(ctx, databaseURL(node, "template1"), "drop", "name", a.name),
		script(ctx, databaseURL(node, "template1"), "clone", "name", a.name),
		script(ctx, databaseURL(node, a.name), "audit"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if a.scene == clockScene {
		conn, err := connect(ctx, databaseURL(node, a.name))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if err := errors.Join(pgtest.MakeClockStep(ctx, conn), pgtest.StepClock(ctx, conn, time.Minute), pgtest.StepClock(ctx, conn, 0)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		_ = script(context.WithoutCancel(ctx), databaseURL(a.lane.node, "template1"), "drop", "name", a.name)
	})
}

func databaseURL(node *pgcluster.Node, database string) string {
	u, err := url.Parse(node.URL())
	if err != nil {
		panic(err) // pgcluster made it
	}
	u.Path = "/" + database
	return u.String()
}

// urlOf returns a URL that leads to the server that takes writes, through proxies if there are any, as a role or as a
// superuser.
func (a *chaosBundle) urlOf(proxies []*netfault.Proxy, role string) string {
	var hosts []string
	var u *url.URL
	for i, text := range a.urls {
		var err error
		if u, err = url.Parse(text); err != nil {
			panic(err) // pgcluster made it
		}
		if proxies != nil {
			u.Host = proxies[i].Addr()
		}
		hosts = append(hosts, u.Host)
	}
	u.Path, u.Host = "/"+a.name, strings.Join(hosts, ",")
	if role != "" {
		u.User = url.UserPassword(role, "secret")
	}
	query := u.Query()
	query.Set("sslmode", "disable")
	if len(hosts) > 1 {
		query.Set("target_session_attrs", "read-write")
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// proxies starts one proxy for each server.
func (a *chaosBundle) proxies(t *testing.T) (all []*netfault.Proxy) {
	t.Helper()
	for _, node := range a.nodes {
		p, _ := netfault.Through(t, node.URL())
		all = append(all, p)
	}
	return all
}

// one returns the only value of a file's statement.
func one[T any](ctx context.Context, url, name string, args ...any) (value T, err error) {
	return answer[T](ctx, url, chaosStatement(name), args...)
}

// answer returns the only value of a statement. It opens a new connection, since an older one may be broken.
func answer[T any](ctx context.Context, url, statement string, args ...any) (value T, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := connect(ctx, url)
	if err != nil {
		return value, err
	}
	defer conn.Close(ctx)
	return answerOn[T](ctx, conn, statement, args...)
}

// answerOn returns the only value of a statement, on the caller's connection.
func answerOn[T any](ctx context.Context, conn *pgx.Conn, statement string, args ...any) (value T, err error) {
	err = conn.QueryRow(ctx, statement, args...).Scan(&value)
	return value, err
}

func set(ctx context.Context, node *pgcluster.Node, name, value string) error {
	if err := script(ctx, node.URL(), "setting", "name", name, "value", value); err != nil {
		return err
	}
	return script(ctx, node.URL(), "reload")
}

func (a *chaosBundle) putAll(t *testing.T, plan *traffic.Plan) {
	t.Helper()
	for _, p := range traffic.Pools() {
		if _, err := a.SetPool(t.Context(), p.Name, queue.PoolLimits{Slots: p.Slots, PerKey: p.ByN}); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range plan.DAGs {
		a.put(t, d.Source)
	}
	if err := script(t.Context(), a.superURL(), "schedules"); err != nil {
		t.Fatal(err)
	}
	most := limitOfQueue
	if err := a.SetQueue(t.Context(), queue.QueueChange{Name: limitedQueue, MaxRunning: &most}); err != nil {
		t.Fatal(err)
	}
}

// limitedQueue is the queue that limits its runs, and limitOfQueue its limit.
const (
	limitedQueue = "limited"
	limitOfQueue = 2
)

// station is a worker that is started again whenever it ends, as by a service manager.
type station struct {
	name    string
	bench   *testBundle
	proxies []*netfault.Proxy
	cable   *network // nil: it runs on this host
	ended   chan struct{}

	mu      sync.Mutex
	now     *process
	busy    bool // a fault uses it
	uses    int  // how often a fault used it
	leaving bool
	away    bool // it must not be started yet
	storms  int  // faults that could keep it from claiming
	stormy  int  // those that go on
}

func (a *chaosBundle) startWorkers(t *testing.T) {
	t.Helper()
	for i := range chaosWorkers {
		u := &station{name: fmt.Sprintf("w%d", i+1), proxies: a.proxies(t), ended: make(chan struct{})}
		far := *a.testBundle
		u.bench = &far
		u.bench.url = a.urlOf(u.proxies, "chaos_worker")
		if i == 0 && a.scene == networkScene {
			u.cable = newNetwork(t)
			u.bench.url = u.cable.forward(t, u.bench.url)
			u.bench.within = []string{"ip", "netns", "exec", u.cable.name}
		}
		a.units = append(a.units, u)
		go u.run(t)
	}
}

// run starts a worker again and again.
func (u *station) run(t *testing.T) {
	defer close(u.ended)
	for {
		u.mu.Lock()
		if u.leaving {
			u.mu.Unlock()
			return
		}
		p := u.bench.worker(t, u.name, "lease_ttl="+chaosTTL.String(), "drain_timeout=1s", "log_level=info", fmt.Sprint("slots=", chaosSlots))
		u.now = p
		u.mu.Unlock()
		<-p.ended
		for u.isAway() {
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond) // a pause like a service manager's, so that failures do not make a busy loop
	}
}

func (u *station) isAway() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.away && !u.leaving
}

// send ends a worker and keeps it from starting, or with away false lets it start again.
func (u *station) send(away bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.away = away
	if away && u.now != nil {
		_ = u.now.Process.Signal(syscall.SIGTERM)
	}
}

// pids returns the process ids of the guard and of the driver process, its child; 0 for a process that does not run.
func (u *station) pids() (guard, driver int) {
	u.mu.Lock()
	p := u.now
	u.mu.Unlock()
	if p == nil {
		return 0, 0
	}
	select {
	case <-p.ended:
		return 0, 0
	default:
	}
	guard = p.Process.Pid
	if kids := children(guard); len(kids) > 0 {
		driver = kids[0]
	}
	return guard, driver
}

// stopWorkers stops all workers in order, and checks that they leave nothing behind (W4).
func (a *chaosBundle) stopWorkers(t *testing.T) {
	t.Helper()
	for _, u := range a.units {
		u.mu.Lock()
		u.leaving = true
		if u.now != nil {
			_ = u.now.Process.Signal(syscall.SIGTERM)
		}
		u.mu.Unlock()
	}
	for _, u := range a.units {
		select {
		case <-u.ended:
		case <-time.After(2 * patience):
			a.say("W4: worker %s does not end", u.name)
			u.tellStack(t)
			u.now.stop(t)
			<-u.ended
		}
	}
}

// say notes a breach.
func (a *chaosBundle) say(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = append(a.broken, fmt.Sprintf(format, args...))
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)+1))
}

// tellStack makes a worker that hangs print its goroutines.
func (u *station) tellStack(t *testing.T) {
	t.Helper()
	u.mu.Lock()
	p := u.now
	u.mu.Unlock()
	for _, pid := range append(children(p.Process.Pid), holders(filepath.Join(u.bench.dir, "state", "worker-"+u.name+".lock"))...) {
		_ = syscall.Kill(pid, syscall.SIGQUIT)
	}
	pause(t.Context(), time.Second)
	t.Logf("worker %s said:\n%s", u.name, p.said)
}

// holders returns the processes that have a file open.
func holders(path string) (pids []int) {
	_ = procfs.Walk(func(pid int, _ uint64) {
		files, _ := procfs.Files(pid)
		if pid != os.Getpid() && slices.Contains(slices.Collect(maps.Values(files)), path) {
			pids = append(pids, pid)
		}
	})
	return pids
}
