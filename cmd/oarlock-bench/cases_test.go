package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglocal"
)

// TestMain keeps the servers of these tests in memory.
func TestMain(m *testing.M) {
	_ = os.Setenv("TMPDIR", pglocal.FastTempDir())
	os.Exit(m.Run())
}

// tiny are options for as little work as cases can do, on a server without durability.
var tiny = options{
	rounds: 1, scale: 1e-9, soak: soakSlices * 20 * time.Millisecond,
	server: map[string]string{"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "128MB"},
}

func needsServer(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a server")
	}
	if _, err := pglocal.Find(t.Context()); err != nil {
		t.Skip("no Postgres here: ", err)
	}
}

// openTiny opens a lab for the tests of all cases, which take turns on it as in a quick run.
func openTiny(t *testing.T) *Lab {
	t.Helper()
	o := tiny
	o.program = os.Getenv("OARLOCK_TEST_PROGRAM")
	if _, err := os.Stat(o.program); err != nil { // `make test` links the program, but maybe later than this test runs
		o.program = filepath.Join(t.TempDir(), "oarlock")
		// The same flags as for the tests of this package: the build cache has everything.
		build := exec.CommandContext(t.Context(), "go", "build", "-o", o.program, "github.com/oarlock-dev/oarlock/cmd/oarlock")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build oarlock: %v\n%s", err, out)
		}
	}
	lab, err := openLab(t.Context(), o, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(lab.dir); err == nil {
			t.Errorf("%s is left", lab.dir)
		}
	})
	return lab
}

// In every case the sides take turns, each goal is compared with something, and the table shows it.
func TestCases_MeasureTheirGoals(t *testing.T) {
	t.Parallel()
	needsServer(t)
	lab, dir := openTiny(t), t.TempDir()
	for _, c := range cases() {
		t.Run(c.Name, func(t *testing.T) {
			r, err := measure(t.Context(), lab, c, tiny.rounds)
			if err != nil {
				t.Fatal(err)
			}
			checkResult(t, lab, c, r)
			if err := r.save(dir); err != nil {
				t.Fatal(err)
			}
			var table strings.Builder
			if err := report(dir, &table); err != nil || !strings.Contains(table.String(), "\n| "+c.Name+" | ") {
				t.Errorf("the table says nothing of it, %v:\n%s", err, &table)
			}
		})
	}
	t.Run("slow database", func(t *testing.T) { checkSlowDatabase(t, lab) })
}

// In a slow database the commits of workers are slow, and give-backs are counted.
func checkSlowDatabase(t *testing.T, lab *Lab) {
	t.Helper()
	const dag, runs = "depth", claimBatch * claimPolls
	stage := lab.stage("slow")
	defer func() {
		if err := stage.close(); err != nil {
			t.Error(err)
		}
	}()
	d, err := stage.slowDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), d.worker)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for setting, want := range map[string]string{"commit_delay": "5000", "commit_siblings": "0"} {
		var got string
		if err := conn.QueryRow(t.Context(), "SHOW "+setting).Scan(&got); err != nil || got != want {
			t.Errorf("%s %s, %v, want %s", setting, got, err, want)
		}
	}
	if err := d.put(t.Context(), fmt.Sprintf(backlogLineage, dag)); err != nil {
		t.Fatal(err)
	}
	ids, err := d.enqueue(t.Context(), dag, runs)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []float64{0, 1000} {
		if _, err := d.claims(t.Context(), dag); err != nil { // claims all runs; they are given back at the end
			t.Fatal(err)
		}
		if got, err := d.givenBack(t.Context(), ids[0], runs); err != nil || got != want {
			t.Errorf("given back %v times per 1,000 runs, %v, want %v", got, err, want)
		}
	}
}

func checkResult(t *testing.T, lab *Lab, c Case, r *Result) {
	t.Helper()
	var buffers bytes.Buffer
	show(&buffers, r)
	shown := buffers.String()
	for _, g := range c.Goals {
		if g.Metric == pollBuffers && !lab.counting || g.Metric == perSecondSent && !lab.counting {
			continue
		}
		if !strings.Contains(shown, g.String()) {
			t.Errorf("%s: %q was not measured:\n%s", c.Name, g, shown)
		}
	}
	for side, figures := range r.Figures {
		for metric, f := range figures {
			if f.Median < 0 || f.Max == 0 && mustCost(metric) {
				t.Errorf("%s: %s: %s %s", c.Name, side, f, metric)
			}
		}
	}
}

// mustCost reports whether a figure cannot be zero.
func mustCost(metric string) bool {
	switch metric {
	case stepsPerSecond, runsPerSecond, commandsPerS, megabytesPerS, microsPerStep, msMedian, msP99, msPerPoll, statementsPer, walPer:
		return true
	}
	return false
}

// A case that has a result file is not measured again, so an interrupted run goes on where it stopped.
func TestRun_GoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range caseNames(cases()) {
		if err := (&Result{Case: name, Sides: []string{ours}}).save(dir); err != nil {
			t.Fatal(err)
		}
	}
	var out, said strings.Builder
	if err := run(t.Context(), []string{"--out", dir}, &out, &said); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Count(said.String(), "has it"), len(cases()); got != want {
		t.Errorf("%d cases were skipped, not %d:\n%s", got, want, said.String())
	}
}

func TestRun_StopsWhenItIsTold(t *testing.T) {
	t.Parallel()
	needsServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, said strings.Builder
	dir := t.TempDir()
	if err := run(ctx, []string{"--out", dir, "chain"}, &out, &said); err == nil {
		t.Error("it went on")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

func TestOptions_AreChecked(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--rounds 0", "--scale 0", "--scale 2", "--soak 0s", "--keep", "--nonsense"} {
		if _, err := parseOptions(strings.Fields(args), &strings.Builder{}); err == nil || errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s: %v", args, err)
		}
	}
	if _, err := chosen([]string{"chain", "nonsense"}); err == nil || !strings.Contains(err.Error(), "share") {
		t.Errorf("an unknown case: %v", err)
	}
}
