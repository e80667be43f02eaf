// Command oarlock-bench measures what Oarlock costs. In the same run it measures other ways to do the same work: a bare loop
// with the same rows or system calls and no engine, and River with its best settings.
//
//	oarlock-bench [--rounds 5] [--out DIR] [CASE ...]    measure, all cases if none is named
//	oarlock-bench report DIR                             what DIR holds, as a table
//	oarlock-bench --quick [--keep]                       a few minutes: ratios against the committed ones, or keep them
//
// A case has sides, each with a database of its own on one private server that is durable (fsync and synchronous_commit
// on). Sides take turns, round by round, so that other load on the machine meets all of them. Each round has a ratio, and the
// median of the ratios counts. A figure is never compared with a figure of another run.
//
// With --out each case writes a file when it is done, and a case with a file is skipped: an interrupted run goes on where it
// stopped.
//
// The command is for developers of Oarlock. It leaves nothing behind but DIR.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/oarlock-dev/oarlock/worker/embed"
)

func main() {
	embed.Roomy() // as the worker's process does
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errFell):
		stop()
		os.Exit(3) //nolint:gocritic // stopped above
	case err != nil:
		fmt.Fprintln(os.Stderr, "oarlock-bench:", err)
		stop()
		os.Exit(1)
	}
}

// run measures cases, compares ratios with --quick, or prints a report, as args say. Results go to stdout, progress goes to stderr.
// It returns errFell if a ratio fell.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 2 && args[0] == "report" {
		return report(args[1], stdout)
	}
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	if o.quick {
		return runQuick(ctx, o, stdout, say)
	}
	picked, err := chosen(o.names)
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return err
		}
	}
	if o.rounds < leastRounds || o.scale < 1 {
		say("fewer than %d rounds, or less than all of the work: good to try things, not for figures", leastRounds)
	}
	return measureAll(ctx, o, picked, stdout, say)
}

// measureAll measures the picked cases, prints each result, and saves it in the folder --out if there is one. It skips a case with
// a result there, unless --again is given. Each case has a server of its own, so that no case finds rests of another one.
func measureAll(ctx context.Context, o options, picked []Case, stdout io.Writer, say func(string, ...any)) error {
	for _, c := range picked {
		if done, err := o.has(c); err != nil || done {
			if err != nil {
				return err
			}
			say("%s: %s has it; --again measures it once more", c.Name, o.out)
			continue
		}
		say("%s: %s", c.Name, c.About)
		r, err := measureOne(ctx, o, c, say)
		if err != nil {
			return err
		}
		show(stdout, r)
		if o.out == "" {
			continue
		}
		if err := r.save(o.out); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) has(c Case) (bool, error) {
	if o.out == "" || o.again {
		return false, nil
	}
	r, err := load(o.out, c.Name)
	return r != nil, err
}

func measureOne(ctx context.Context, o options, c Case, say func(string, ...any)) (r *Result, err error) {
	lab, err := openLab(ctx, o, say)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lab.close()) }()
	return measure(ctx, lab, c, o.rounds)
}

// took returns a number of seconds as people read it, such as 1m30s.
func took(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

const (
	defaultRounds = 5
	leastRounds   = 5 // for figures that people read
	quickRounds   = 3
	quickScale    = 0.25
	defaultSoak   = 10 * time.Minute
)

// options are the flags and arguments of the command line.
type options struct {
	names   []string // names of cases; empty: all cases
	rounds  int
	scale   float64 // factor on the amounts of work: 1 for figures, less to check that cases work
	soak    time.Duration
	out     string // folder of results; "": results are not kept
	again   bool   // measure cases although out has their results
	program string // path of oarlock; "": it is built
	quick   bool
	keep    bool
	ratios  string            // file with the committed ratios
	server  map[string]string // further settings of the server; without a flag, because only tests may use a server that is not durable
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("oarlock-bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.rounds, "rounds", defaultRounds, "let each side of a case have `N` turns")
	f.Float64Var(&o.scale, "scale", 1, "do this `SHARE` of the work; figures that are to be compared need 1")
	f.DurationVar(&o.soak, "soak", defaultSoak, "let the soak last this `LONG`")
	f.StringVar(&o.out, "out", "", "keep a JSON file per case in `FOLDER`; cases that have one are skipped")
	f.BoolVar(&o.again, "again", false, "measure cases that have a file in --out, too")
	f.StringVar(&o.program, "program", "", "`PATH` of the oarlock to measure; it is built where none is given")
	f.BoolVar(&o.quick, "quick", false, "measure what is guarded, with less work, and compare with --ratios")
	f.BoolVar(&o.keep, "keep", false, "with --quick: rewrite --ratios instead")
	f.StringVar(&o.ratios, "ratios", "cmd/oarlock-bench/ratios.json", "`FILE` of the ratios that must not fall")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.names = f.Args()
	if o.quick {
		o.rounds, o.scale = quickRounds, quickScale
	}
	return o, o.check()
}

func (o *options) check() error {
	switch {
	case o.rounds < 1:
		return fmt.Errorf("--rounds %d: give one or more", o.rounds)
	case o.scale <= 0 || o.scale > 1:
		return fmt.Errorf("--scale %v: give more than 0, at most 1", o.scale)
	case o.soak <= 0:
		return errors.New("--soak: give some time")
	case o.keep && !o.quick:
		return errors.New("--keep goes with --quick")
	}
	return nil
}
