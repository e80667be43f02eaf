package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/queue"
)

// State of a key, for the checker: nothing, or one run that was requested with one day. A run has number 0 if no client was told
// its number.
type held struct {
	run queue.RunID
	day string
}

// asked is an operation on a key.
type asked struct {
	key, day string
	undone   bool // in a transaction that rolled back
	audit    bool // not a request, but a read of the database at the end
}

// told is the outcome of an operation.
type told struct {
	run     queue.RunID
	day     string // of an audit
	runs    int    // of an audit
	outcome outcome
}

type outcome string

const (
	made    outcome = "made"    // or found
	other   outcome = "other"   // the key belongs to another request
	nothing outcome = "nothing" // it failed, and left nothing
	unknown outcome = "unknown"
)

// keys is the specification of run_keys, one key at a time.
func keys() porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init:      func() []any { return []any{held{}} },
		Step:      func(state, input, output any) []any { return next(state.(held), input.(asked), output.(told)) },
		Partition: byKey,
	}
	return model.ToModel()
}

func byKey(history []porcupine.Operation) (parts [][]porcupine.Operation) {
	of := map[string][]porcupine.Operation{}
	for _, op := range history {
		key := op.Input.(asked).key
		of[key] = append(of[key], op)
	}
	for _, part := range of {
		parts = append(parts, part)
	}
	return parts
}

// next returns the states that a key may have after an operation with this outcome. None means that this outcome is impossible.
func next(key held, in asked, out told) []any {
	free, same := key == held{}, key.day == in.day
	known := held{out.run, in.day}
	switch {
	case in.audit && free:
		return when(out.runs == 0, key)
	case in.audit:
		return when(out.runs == 1 && out.day == key.day && (key.run == 0 || key.run == out.run), key)
	case out.outcome == nothing:
		return []any{key}
	case out.outcome == other:
		return when(!free && !same, key)
	case out.outcome == unknown && free:
		return []any{key, held{0, in.day}}
	case out.outcome == unknown:
		return []any{key}
	case free && in.undone:
		return []any{key}
	case free:
		return []any{known}
	case same && (key.run == 0 || key.run == out.run):
		return []any{known}
	}
	return nil
}

func when(ok bool, key held) []any {
	if ok {
		return []any{key}
	}
	return nil
}

// contest is a number of clients, each behind a proxy of its own, that request runs with few keys.
type contest struct {
	*clientBundle
	start   time.Time
	mu      sync.Mutex
	history []porcupine.Operation
	busy    atomic.Int32 // clients that in this round are neither done nor hold a transaction open
	// enqueuer makes the requests of a client
	enqueuer func(*queue.Store, *pgxpool.Pool) enqueuer
}

type enqueuer func(context.Context, queue.Request) (queue.RunID, error)

func honest(s *queue.Store, _ *pgxpool.Pool) enqueuer { return s.Enqueue }

// careless takes a lost reply for a failure.
func careless(_ *queue.Store, pool *pgxpool.Pool) enqueuer {
	return func(ctx context.Context, r queue.Request) (id queue.RunID, err error) {
		err = pglink.Do(ctx, func(ctx context.Context) (err error) {
			id, err = queue.EnqueueTx(ctx, pool, r)
			return err
		}, func(context.Context) (bool, error) { return false, nil })
		return id, err
	}
}

const (
	contestClients = 6
	contestRounds  = 12 // in each round every client makes one request, mostly with the same new key
)

// play lets all clients make their requests, and reports whether the outcomes that they saw are possible.
func (c *contest) play(t *testing.T, seed uint64) bool {
	t.Helper()
	c.start, c.history = time.Now(), nil
	c.exec(t, "TRUNCATE oarlock.runs, oarlock.run_keys")
	var clients []*contestant
	for n := range contestClients {
		clients = append(clients, c.client(t, n, rand.New(rand.NewPCG(seed, uint64(n)))))
	}
	for round := range contestRounds {
		var asking sync.WaitGroup
		c.busy.Store(contestClients)
		for _, client := range clients {
			asking.Go(func() { client.ask(t, round) })
		}
		asking.Wait()
	}
	for _, client := range clients {
		client.proxy.Close()
	}
	await.True(t, "no statement is under way", func() bool {
		return value[int](t, c.clientBundle, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%oarlock.enqueue%' AND state <> 'idle' AND pid <> pg_backend_pid()") == 0
	})
	c.audit(t)
	return porcupine.CheckOperationsTimeout(keys(), c.history, patience) == porcupine.Ok
}

func (c *contest) record(client int, in asked, out told, call time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	op := porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call.Sub(c.start).Nanoseconds(), Return: time.Since(c.start).Nanoseconds()}
	if out.outcome == unknown { // the request may still take effect
		op.Return = time.Hour.Nanoseconds()
	}
	c.history = append(c.history, op)
}

// audit adds the final content of the database.
func (c *contest) audit(t *testing.T) {
	t.Helper()
	for key := range contestRounds {
		in := asked{key: fmt.Sprint("key", key), audit: true}
		var out told
		err := c.conn.QueryRow(t.Context(), `SELECT count(*), coalesce(min(run_id), 0), coalesce(min(params ->> 'day'), '') FROM oarlock.runs WHERE run_key = $1`, in.key).
			Scan(&out.runs, &out.run, &out.day)
		if err != nil {
			t.Fatal(err)
		}
		call := c.start.Add(2 * time.Hour)
		c.history = append(c.history, porcupine.Operation{
			ClientId: contestClients, Input: in, Output: out, Call: call.Sub(c.start).Nanoseconds(), Return: call.Sub(c.start).Nanoseconds(),
		})
	}
}

// String returns the histories of the keys that have an impossible history.
func (c *contest) String() string {
	var text strings.Builder
	for _, part := range byKey(c.history) {
		if porcupine.CheckOperations(keys(), part) {
			continue
		}
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		for _, op := range part {
			fmt.Fprintf(&text, "%10d %10d client %d %+v: %+v\n", op.Call, op.Return, op.ClientId, op.Input, op.Output)
		}
	}
	return text.String()
}

// contestant requests one run after the other, while its connection breaks.
type contestant struct {
	*contest
	number int
	random *rand.Rand
	proxy  *netfault.Proxy
	pool   *pgxpool.Pool
	do     enqueuer
	hold   *netfault.Injected // of a reply, for a client that gives up; nil: no fault is pending
}

func (c *contest) client(t *testing.T, number int, random *rand.Rand) *contestant {
	t.Helper()
	proxy, url := netfault.Through(t, c.db.URL)
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := queue.Open(t.Context(), queue.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return &contestant{contest: c, number: number, random: random, proxy: proxy, pool: pool, do: c.enqueuer(store, pool)}
}

// breakages lose the reply after the commit, or the request, or the connection once the request has arrived.
var breakages = []netfault.Fault{
	{When: netfault.Completed("SELECT 1"), Do: netfault.Cut},
	{When: netfault.Completed("SELECT 1"), Do: netfault.CutHalf},
	{When: netfault.OfType(netfault.Server, 'Z'), Do: netfault.Cut},
	{When: netfault.OfType(netfault.Client, 'B'), Do: netfault.Cut},
	{When: netfault.OfType(netfault.Client, 'S'), Do: netfault.CutAfter},
}

func (c *contestant) ask(t *testing.T, round int) {
	in := asked{key: fmt.Sprint("key", round), day: "monday"}
	if c.random.IntN(4) == 0 {
		in.key = fmt.Sprint("key", c.random.IntN(round+1))
	}
	if c.random.IntN(4) == 0 {
		in.day = "tuesday"
	}
	r := queue.Request{DAG: "report", Params: map[string]string{"day": in.day}, Key: in.key}
	switch c.random.IntN(10) {
	case 0:
		in.undone = true
		c.inTx(t, in, r, pgx.TxOptions{})
		return
	case 1:
		c.inTx(t, in, r, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		return
	case 2, 3, 4:
		c.proxy.Inject(breakages[c.random.IntN(len(breakages))])
	case 5:
		if c.hold == nil {
			c.hold = c.proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 1"), Do: netfault.Hold})
		}
	}
	defer c.busy.Add(-1)
	ctx, cancel := context.WithCancel(t.Context())
	call := time.Now()
	done := make(chan struct{})
	watched := c.giveUp(cancel, done)
	id, err := c.do(ctx, r)
	c.record(c.number, in, outcomeOf(id, err), call)
	close(done)
	<-watched
	cancel()
}

// giveUp ends a call while its reply is held.
func (c *contestant) giveUp(cancel context.CancelFunc, done <-chan struct{}) (watched chan struct{}) {
	watched = make(chan struct{})
	hold := c.hold
	if hold == nil {
		close(watched)
		return watched
	}
	go func() {
		defer close(watched)
		select {
		case <-hold.Fired():
			cancel()
			<-done
			hold.Release()
			c.hold = nil
		case <-done:
		}
	}()
	return watched
}

// inTx makes a request in a transaction, on a connection that does not break. It ends the transaction once another client waits
// for it, or once no client can.
func (c *contestant) inTx(t *testing.T, in asked, r queue.Request, options pgx.TxOptions) {
	conn, err := pgx.Connect(t.Context(), c.db.URL)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	call := time.Now()
	tx, err := conn.BeginTx(t.Context(), options)
	if err != nil {
		t.Error(err)
		return
	}
	id, err := queue.EnqueueTx(t.Context(), tx, r)
	c.busy.Add(-1)
	if err == nil {
		await.True(t, "somebody waits, or nobody will", func() bool { return c.busy.Load() <= 0 || isWaitedFor(t, tx) })
	}
	if err == nil && !in.undone {
		err = tx.Commit(t.Context())
	}
	if err != nil || in.undone {
		_ = tx.Rollback(t.Context())
	}
	c.record(c.number, in, outcomeOf(id, err), call)
}

func isWaitedFor(t *testing.T, tx pgx.Tx) (waited bool) {
	err := tx.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid)))").Scan(&waited)
	if err != nil {
		t.Error(err)
	}
	return waited || err != nil
}

func outcomeOf(id queue.RunID, err error) told {
	switch {
	case err == nil:
		return told{run: id, outcome: made}
	case errors.Is(err, queue.ErrConflict):
		return told{outcome: other}
	case errors.Is(err, queue.ErrUnknown):
		return told{outcome: unknown}
	}
	return told{outcome: nothing}
}

// seeds of a contest; a planted fault gets as many as it may need to be caught
const contestSeeds = 2

func TestEnqueue_ByKeyIsLinearizable(t *testing.T) {
	t.Parallel()
	c := &contest{clientBundle: newClientBundle(t), enqueuer: honest}
	of := map[outcome]int{}
	for seed := range uint64(contestSeeds) {
		if !c.play(t, seed) {
			t.Fatalf("seed %d: this cannot have happened:\n%s", seed, c)
		}
		for _, op := range c.history {
			of[op.Output.(told).outcome]++
		}
	}
	t.Log(of)
	if of[made] == 0 || of[other] == 0 {
		t.Errorf("the contest is too tame: %v", of)
	}
}

// mayMiss is how many contests a planted fault may survive.
const mayMiss = 20

func (c *contest) mustBeCaught(t *testing.T) {
	t.Helper()
	for seed := range uint64(mayMiss) {
		if !c.play(t, seed) {
			t.Logf("seed %d:\n%s", seed, c)
			return
		}
	}
	t.Errorf("%d contests did not show it", mayMiss)
}

// plantKeysNotUnique makes each request look for the key before it makes a run, without waiting for other requests.
func plantKeysNotUnique(t *testing.T, d *clientBundle) {
	t.Helper()
	d.exec(t, "ALTER TABLE oarlock.run_keys DROP CONSTRAINT run_keys_pkey")
	d.exec(t, `CREATE OR REPLACE FUNCTION oarlock.take_key(id bigint, submitter text, run_key text, hash bytea) RETURNS bigint LANGUAGE plpgsql AS $$
		DECLARE
			held record;
		BEGIN
			SELECT k.run_id, k.request_hash INTO held FROM oarlock.run_keys k WHERE k.submitter = take_key.submitter AND k.run_key = take_key.run_key LIMIT 1;
			IF NOT FOUND THEN
				INSERT INTO oarlock.run_keys (submitter, run_key, run_id, request_hash) VALUES (submitter, run_key, id, hash);
				RETURN id;
			ELSIF held.request_hash <> hash THEN
				RAISE EXCEPTION 'taken' USING ERRCODE = 'OA004';
			END IF;
			RETURN held.run_id;
		END $$`)
}

func TestEnqueue_ACheckerOfKeysSeesAKeyThatIsNotUnique(t *testing.T) {
	t.Parallel()
	c := &contest{clientBundle: newClientBundle(t), enqueuer: honest}
	plantKeysNotUnique(t, c.clientBundle)
	c.mustBeCaught(t)
}

func TestEnqueue_ACheckerOfKeysSeesALostReplyTakenForAFailure(t *testing.T) {
	t.Parallel()
	c := &contest{clientBundle: newClientBundle(t), enqueuer: careless}
	c.mustBeCaught(t)
}
