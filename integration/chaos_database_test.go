package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

func containsAll(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// breakDatabase breaks servers and the ways to them. It owns the servers: no other goroutine starts or stops one.
func (a *chaosBundle) breakDatabase(r *rand.Rand, end time.Time) {
	faults := append(networkFaults(), databaseFaults()...)
	switch a.scene {
	case clockScene:
		faults = append(faults, fault{"the database's clock stepped", 12, func(a *chaosBundle, r *rand.Rand) bool { return a.stepClock(between(r, -7*chaosTTL, 7*chaosTTL)) }})
	case diskScene:
		faults = append(faults, fault{"the server's disk full", 6, fillDisk})
	case networkScene:
		faults = append(faults, pullCable)
	case syncScene, asyncScene:
		a.harm(r, faults, time.Now().Add(time.Until(end)/2), 200*time.Millisecond, 700*time.Millisecond)
		a.failOver(r)
	}
	a.harm(r, faults, end, 200*time.Millisecond, 700*time.Millisecond)
}

func databaseFaults() []fault {
	return []fault{
		{"backends terminated", 4, func(a *chaosBundle, r *rand.Rand) bool {
			defer a.storm()()
			n, err := one[int](a.ctx, a.superURL(), "terminate", []int{1, 3, 100}[r.IntN(3)])
			return err == nil && n > 0
		}},
		{"a backend killed with SIGKILL", 1, func(a *chaosBundle, r *rand.Rand) bool {
			defer a.storm()()
			pids := a.backendPIDs()
			return len(pids) > 0 && syscall.Kill(pids[r.IntN(len(pids))], syscall.SIGKILL) == nil
		}},
		{"Postgres restarted", 2, func(a *chaosBundle, r *rand.Rand) bool {
			return a.restart(r, (*pgcluster.Node).Stop)
		}},
		{"Postgres stopped at once, and started", 2, func(a *chaosBundle, r *rand.Rand) bool {
			return a.restart(r, (*pgcluster.Node).Crash)
		}},
		{"rows held by others", 4, func(a *chaosBundle, r *rand.Rand) bool {
			return a.hold(r, []string{"hold_rows", "hold_workers", "hold_fences", "hold_tasks"}[r.IntN(4)])
		}},
		{"runs locked in the wrong order", 2, lockBackwards},
		{"short timeouts", 3, shortTimeouts},
		{"no connections left", 2, hogConnections},
		{"NOTIFY lost: listeners terminated", 3, func(a *chaosBundle, _ *rand.Rand) bool {
			n, err := one[int](a.ctx, a.superURL(), "terminate_listeners")
			return err == nil && n > 0
		}},
		{"NOTIFY forged, a flood of it", 3, forge},
	}
}

func (a *chaosBundle) superURL() string { return databaseURL(a.node(), a.name) }

func (a *chaosBundle) restart(r *rand.Rand, leave func(*pgcluster.Node, testing.TB)) bool {
	defer a.storm()()
	leave(a.node(), a.t)
	pause(a.ctx, between(r, 0, chaosTTL/2))
	a.node().Start(a.t)
	return true
}

// hold keeps rows locked for a while, like an application that forgot a transaction.
func (a *chaosBundle) hold(r *rand.Rand, name string) bool {
	conn, err := connect(a.ctx, a.superURL())
	if err != nil {
		return false
	}
	ctx := context.WithoutCancel(a.ctx)
	tx, err := conn.Begin(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, chaosStatement(name))
	}
	a.strike(between(r, 100*time.Millisecond, chaosTTL), func() { _ = conn.Close(ctx) })
	return err == nil
}

// lockBackwards locks two runs, the later one first. So it deadlocks with a session that locks them in order.
func lockBackwards(a *chaosBundle, r *rand.Rand) bool {
	conn, err := connect(a.ctx, a.superURL())
	if err != nil {
		return false
	}
	defer conn.Close(context.WithoutCancel(a.ctx))
	defer a.storm()()
	ctx, cancel := context.WithTimeout(a.ctx, chaosTTL)
	defer cancel()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return false
	}
	var run int64
	for range 3 {
		if err := tx.QueryRow(ctx, chaosStatement("hold_one"), run).Scan(&run); err != nil {
			break
		}
		pause(ctx, between(r, 20*time.Millisecond, 300*time.Millisecond))
	}
	_ = tx.Rollback(context.WithoutCancel(ctx))
	return run != 0
}

// stepped are the settings that shortTimeouts changes.
var stepped = []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"}

func shortTimeouts(a *chaosBundle, r *rand.Rand) bool {
	name := stepped[r.IntN(len(stepped))]
	node, url := a.node(), a.node().URL()
	if set(a.ctx, node, name, fmt.Sprint(10+r.IntN(190))) != nil {
		return false
	}
	a.strike(between(r, 200*time.Millisecond, chaosTTL), func() {
		ctx := context.WithoutCancel(a.ctx)
		_ = script(ctx, url, "unset", "name", name)
		_ = script(ctx, url, "reload")
	})
	return true
}

// hogConnections takes all free connections, then makes some workers look for new ones.
func hogConnections(a *chaosBundle, r *rand.Rand) bool {
	const most = 200
	var taken []*pgx.Conn
	ctx := context.WithoutCancel(a.ctx)
	for range most {
		conn, err := pgx.Connect(a.ctx, a.urlOf(nil, "chaos_stranger"))
		if err != nil {
			break
		}
		taken = append(taken, conn)
	}
	_, p := a.proxy(r)
	p.CutAll()
	a.strike(between(r, 300*time.Millisecond, chaosTTL), func() {
		for _, conn := range taken {
			_ = conn.Close(ctx)
		}
	})
	return len(taken) > 0 && len(taken) < most
}

// forge sends meaningless notifications, which any login may send.
func forge(a *chaosBundle, r *rand.Rand) bool {
	conn, err := connect(a.ctx, a.superURL())
	if err != nil {
		return false
	}
	rows, _ := conn.Query(a.ctx, chaosStatement("channels"))
	channels, err := pgx.CollectRows(rows, pgx.RowTo[string])
	_ = conn.Close(context.WithoutCancel(a.ctx))
	if err != nil || len(channels) == 0 {
		return false
	}
	stranger, err := pgx.Connect(a.ctx, a.urlOf(nil, "chaos_stranger"))
	if err != nil {
		return false
	}
	defer stranger.Close(context.WithoutCancel(a.ctx))
	for range 200 {
		text := fmt.Sprintf("%s%d", []string{"run:", "lane:", "log:", "", "run:-", "worker:"}[r.IntN(6)], r.IntN(60))
		if _, err := stranger.Exec(a.ctx, chaosStatement("notify"), channels[r.IntN(len(channels))], text); err != nil {
			return false
		}
	}
	return true
}

// stepClock moves the database's clock by up to seven leases, forwards or backwards.
func (a *chaosBundle) stepClock(ahead time.Duration) bool {
	conn, err := connect(context.WithoutCancel(a.ctx), a.superURL())
	if err != nil {
		return false
	}
	defer conn.Close(context.WithoutCancel(a.ctx))
	a.maxStep = max(a.maxStep, ahead)
	return pgtest.StepClock(context.WithoutCancel(a.ctx), conn, ahead) == nil
}

// fillDisk leaves the server no disk space for a while.
func fillDisk(a *chaosBundle, r *rand.Rand) bool {
	defer a.storm()()
	remove := fill(a.t, a.disk)
	pause(a.ctx, between(r, 200*time.Millisecond, chaosTTL/2))
	remove()
	if !a.node().Answers(a.t) { // Postgres stops when it has no space for its write-ahead log
		a.node().Crash(a.t)
		a.node().Start(a.t)
	}
	return true
}

// fill leaves no space in a folder, until remove is called.
func fill(t *testing.T, folder string) (remove func()) {
	path := filepath.Join(folder, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Error(err)
		return func() {}
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for err == nil {
		_, err = f.Write(block)
	}
	return func() { _ = os.Remove(path) }
}
