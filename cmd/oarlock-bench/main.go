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

	"github.com/oarlock-dev/oarlock/worker/rig"
)

func main() {
	rig.Roomy() // as the worker's process does it
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

// run is the program. Results go to stdout, what goes on to stderr.
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
	if err := measureAll(ctx, o, picked, stdout, say); err != nil {
		return err
	}
	if o.out != "" {
		return report(o.out, io.Discard)
	}
	return nil
}

// measureAll measures what has no result yet, each case on a server of its own, so that none finds what another left.
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

// took is a time for people.
func took(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}
