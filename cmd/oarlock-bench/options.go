package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

const (
	defaultRounds = 5
	leastRounds   = 5 // of figures for people
	quickRounds   = 3
	quickScale    = 0.25
	defaultSoak   = 10 * time.Minute
)

// options are what the command line says.
type options struct {
	names   []string // of cases; none: all
	rounds  int
	scale   float64 // of the amounts of work: 1 for figures, less to see that cases work
	soak    time.Duration
	out     string // folder of results; "": none is kept
	again   bool   // measure what out has already
	program string // path of oarlock; "": it is built
	profile string // folder of profiles; "": none
	quick   bool
	keep    bool
	ratios  string // file of committed ratios
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("oarlock-bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.rounds, "rounds", defaultRounds, "let each side of a case have `N` turns")
	f.Float64Var(&o.scale, "scale", 1, "do this `SHARE` of the work; figures that are to be compared need 1")
	f.DurationVar(&o.soak, "soak", defaultSoak, "let the soak last this `LONG`")
	f.StringVar(&o.out, "out", "", "keep a JSON file per case, and report.html, in `FOLDER`; cases that have one are skipped")
	f.BoolVar(&o.again, "again", false, "measure cases that have a file in --out, too")
	f.StringVar(&o.program, "program", "", "`PATH` of the oarlock to measure; it is built where none is given")
	f.StringVar(&o.profile, "profile", "", "write into `FOLDER` a CPU profile of this process per side, of its last turn, and per case the statements that took the server's time")
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
