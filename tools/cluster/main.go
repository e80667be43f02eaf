// Cluster starts what compose.yaml starts, as plain processes of this machine: a Postgres of its own, migrated, and any
// number of workers. It is for people without Docker, and for tests.
//
//	go run ./tools/cluster up --workers 3      build oarlock, start everything
//	eval "$(go run ./tools/cluster env)"       DATABASE_URL and oarlock for this shell
//	go run ./tools/cluster status              what runs; then what the database says of it
//	go run ./tools/cluster scale 5             more workers, or fewer: those finish what they run
//	go run ./tools/cluster kill w2             kill -9 of a worker, guard and driver process
//	go run ./tools/cluster start w2            start it again
//	go run ./tools/cluster drain w1            ask it to hand on its runs and end
//	go run ./tools/cluster down                end everything; nothing is left
//
// With `up --networks`, as root, each worker lives in a network of its own; `cut w2` pulls its cable, `mend w2` plugs it in
// again. `up --set NAME=VALUE` is a setting of the workers, `--program PATH` an oarlock that is built already, and `--dir DIR`,
// before or after any of these words, the folder of another cluster.
//
// A process in the background, the keeper, owns all of it and answers at a socket in the folder. It never looks at
// DATABASE_URL. When the keeper itself is killed, Postgres ends with it, and the workers are told to stop.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

const (
	keepVerb = "keep" // up starts this program again with it
	words    = "up, status, env, scale N, kill NAME, start NAME, drain NAME, cut NAME, mend NAME, down"
)

// options are what `up` was told.
type options struct {
	Dir      string
	Program  string // empty: build it
	Workers  int
	Networks bool
	Settings settings
}

// settings are those of the workers, NAME=VALUE.
type settings []string

func (s *settings) String() string { return strings.Join(*s, " ") }

func (s *settings) Set(text string) error {
	if name, _, ok := strings.Cut(text, "="); !ok || name == "" {
		return errors.New("write NAME=VALUE, see docs/worker.md")
	}
	*s = append(*s, text)
	return nil
}

func run(ctx context.Context, args []string) error {
	o, args, err := read(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return errors.New("what to do? " + words)
	}
	switch verb, rest := args[0], args[1:]; verb {
	case "up":
		return up(ctx, o)
	case keepVerb:
		return keep(ctx, o)
	default:
		return ask(ctx, place{o.Dir}, verb, rest)
	}
}

// read takes flags from among the words, wherever they stand.
func read(args []string) (o options, plain []string, err error) {
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.StringVar(&o.Dir, "dir", filepath.Join(os.TempDir(), fmt.Sprintf("oarlock-cluster-%d", os.Getuid())), "`folder` of the cluster, made by up and removed by down")
	flags.StringVar(&o.Program, "program", "", "`path` of oarlock; built if none is given")
	flags.IntVar(&o.Workers, "workers", 3, "how many workers up starts")
	flags.BoolVar(&o.Networks, "networks", false, "a network for each worker; needs root")
	flags.Var(&o.Settings, "set", "a setting of the workers, as `NAME=VALUE`; may be given again")
	for len(args) > 0 {
		if err := flags.Parse(args); err != nil {
			return o, nil, err
		}
		if args = flags.Args(); len(args) > 0 {
			plain, args = append(plain, args[0]), args[1:]
		}
	}
	o.Dir, err = filepath.Abs(o.Dir)
	return o, plain, err
}
