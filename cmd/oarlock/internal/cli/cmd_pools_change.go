package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// Bounds of the database: of each number of a pool, and of the time of its rate.
const (
	poolNumberMax = 1_000_000
	ratePerMax    = 24 * time.Hour
)

// slotsOfPool is the value of --slots that gives a key the number of its pool again.
const slotsOfPool = "default"

var poolSteerExits = []exitNote{
	inForceNote,
	deniedNote, usageNote,
	{exitNotFound, "the pool does not exist"},
	unreachableNote,
	{exitInvalid, "the pool has no keys; or a setting is wrong"},
}

func newPoolsSetCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "set",
		Usage:     "make a pool, or set its limits",
		ArgsUsage: "POOL",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "slots", Usage: "let at most `N` bodies run at once, each counted by its weight", DefaultText: "any number"},
			&cli.BoolFlag{Name: "per-key", Usage: "limit the bodies of each key that steps give, not all bodies together"},
			&cli.StringFlag{Name: "rate", Usage: "let so many bodies start in a time, as `N/DURATION`, like 100/1m", DefaultText: "any number"},
			&cli.IntFlag{Name: "burst", Usage: "with --rate: let at most `N` bodies start at once after a quiet time", DefaultText: "by the rate"},
			&cli.StringFlag{Name: "note", Usage: "say with this `TEXT` what the pool is for; lists show it"},
			&cli.StringFlag{Name: "key", Usage: "set only the slots of this `KEY`; --slots default: as many as the pool says"},
		},
		Description: manual{
			about: `Makes the pool if no pool has this name. The command sets the whole pool: a limit that you leave out is gone. A number
is from 1 to 1000000; to let nothing start, close the pool. If the pool becomes smaller than what runs, no body is
ended, and none starts until enough bodies have ended. A pool cannot have fewer slots than a step of a DAG needs by
its weight. For administrators (role oarlock_admin).`,
			examples: []string{
				"oarlock pools set heavy --slots 5",
				"oarlock pools set crm --slots 2 --per-key --rate 80/1m --burst 20 --note 'their limit is 100 a minute'",
				"oarlock pools set crm --key acme --slots 10",
				"oarlock pools set crm --key acme --slots default",
			},
			exits: []exitNote{
				{exitOK, "the pool has these limits now"},
				deniedNote, usageNote,
				{exitNotFound, "--key: the pool does not exist"},
				unreachableNote,
				{exitInvalid, "the name is invalid, a DAG needs more, or the pool is in use and cannot count otherwise; or a setting is wrong"},
			},
		}.String(),
		Action: func(c *cli.Context) error { return runPoolsSet(c, e) },
	}
}

func newPoolsCloseCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "close",
		Usage:     "start no more bodies in a pool",
		ArgsUsage: "POOL",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "key", Usage: "close only this `KEY`"},
			&cli.StringFlag{Name: "for", Usage: "open the pool again after this `DURATION`, like 10m", DefaultText: "until you open it"},
		},
		Description: manual{
			about: `No body starts in the pool, or in the key, until it is open again. Bodies that run go on. Closing it once more replaces
the time until which it is closed. For administrators (role oarlock_admin).`,
			examples: []string{"oarlock pools close heavy", "oarlock pools close crm --key acme --for 10m"},
			exits:    poolSteerExits,
		}.String(),
		Action: func(c *cli.Context) error { return runPoolsClose(c, e) },
	}
}

func newPoolsOpenCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "open",
		Usage:     "start bodies in a closed pool again",
		ArgsUsage: "POOL",
		Flags:     []cli.Flag{&cli.StringFlag{Name: "key", Usage: "open only this `KEY`"}},
		Description: manual{
			about: `A key stays closed while the whole pool is closed, and a closed key stays closed when you open the pool.
For administrators (role oarlock_admin).`,
			examples: []string{"oarlock pools open heavy", "oarlock pools open crm --key acme"},
			exits:    poolSteerExits,
		}.String(),
		Action: func(c *cli.Context) error { return runPoolsOpen(c, e) },
	}
}

func newPoolsRemoveCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "rm",
		Usage:     "remove a pool that no DAG names and no run uses",
		ArgsUsage: "POOL",
		Description: manual{
			about:    `Removes the pool, and what is different about its keys. For administrators (role oarlock_admin).`,
			examples: []string{"oarlock pools rm heavy"},
			exits: []exitNote{
				{exitOK, "the pool is removed"},
				deniedNote, usageNote,
				{exitNotFound, "the pool does not exist"},
				unreachableNote,
				{exitInvalid, "the current version of a DAG names the pool, or a run uses it; or a setting is wrong"},
			},
		}.String(),
		Action: func(c *cli.Context) error { return runPoolsRemove(c, e) },
	}
}

func runPoolsSet(c *cli.Context, e *env) error {
	name, key, err := e.onePool(c)
	if err != nil {
		return err
	}
	if key != "" {
		return runPoolsSetKey(c, e, name, key)
	}
	limits, err := limitFlags(c, name)
	if err != nil {
		return err
	}
	return e.withStore(c.Context, func(store *queue.Store) error {
		isNew, err := store.SetPool(c.Context, name, limits)
		if err != nil {
			return err
		}
		p, err := findPool(c.Context, store, name)
		if err != nil {
			return err
		}
		done := "changed"
		if isNew {
			done = "made"
		}
		return e.sayPool(p, done, e.stdoutPaint().Dim("  "+limitsText(p.PoolLimits)))
	})
}

// limitFlags returns the limits that the flags describe. It checks what flags alone can get wrong; the database checks the rest.
func limitFlags(c *cli.Context, name string) (l queue.PoolLimits, err error) {
	l = queue.PoolLimits{PerKey: c.Bool("per-key"), Burst: c.Int("burst"), Note: c.String("note")}
	switch {
	case !c.IsSet("slots") && !c.IsSet("rate"):
		return l, &usageError{msg: "a pool needs --slots, --rate or both", hint: "like `oarlock pools set " + runview.ShellWord(name) + " --slots 5`"}
	case c.IsSet("burst") && !c.IsSet("rate"):
		return l, &usageError{msg: "--burst needs --rate", hint: "add a rate like --rate 100/1m"}
	case c.IsSet("burst") && (l.Burst < 1 || l.Burst > poolNumberMax):
		return l, &usageError{msg: fmt.Sprintf("--burst is from 1 to %d, not %d", poolNumberMax, l.Burst)}
	}
	if c.IsSet("slots") {
		if l.Slots, err = slotsFlag(c.String("slots"), name); err != nil {
			return l, err
		}
	}
	if c.IsSet("rate") {
		l.Rate, l.Per, err = rateFlag(c.String("rate"))
	}
	return l, err
}

// slotsFlag parses a number of slots. close has the arguments of the command that closes what must have none.
func slotsFlag(text, closes string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, &usageError{msg: fmt.Sprintf("--slots: %q must be a whole number", text), hint: "give a number like --slots 5"}
	}
	if n < 1 || n > poolNumberMax {
		return 0, &usageError{
			msg:  fmt.Sprintf("--slots is from 1 to %d, not %s", poolNumberMax, text),
			hint: "to let nothing start: `oarlock pools close " + closes + "`",
		}
	}
	return n, nil
}

// rateFlag parses a rate like 100/1m.
func rateFlag(text string) (n int, per time.Duration, err error) {
	number, within, _ := strings.Cut(text, "/")
	n, err = strconv.Atoi(number)
	if err == nil {
		per, err = duration("--rate", within)
	}
	if err != nil || n < 1 || n > poolNumberMax || per < time.Millisecond || per > ratePerMax {
		return 0, 0, &usageError{
			msg:  fmt.Sprintf("--rate: %q is no rate", text),
			hint: fmt.Sprintf("write a number and a time, like 100/1m: 1 to %d starts in 1ms to 1d", poolNumberMax),
		}
	}
	return n, per, nil
}

// limitsText returns all limits of a pool in a line, such as slots 2 a key, rate 100/1m a key, burst 20.
func limitsText(l queue.PoolLimits) string {
	var parts []string
	if text := runview.PoolSlots(l); text != "" {
		parts = append(parts, "slots "+text)
	}
	if text := runview.PoolRate(l); text != "" {
		parts = append(parts, "rate "+text)
	}
	return strings.Join(parts, ", ")
}

func runPoolsSetKey(c *cli.Context, e *env, name, key string) error {
	for _, flag := range []string{"per-key", "rate", "burst", "note"} {
		if c.IsSet(flag) {
			return &usageError{msg: "--" + flag + " is for the whole pool, and --key sets the slots of one key", hint: "leave one of the two flags out"}
		}
	}
	if !c.IsSet("slots") {
		return &usageError{msg: "--key needs --slots", hint: "give a number like --slots 5, or --slots " + slotsOfPool + " for as many as the pool says"}
	}
	slots := 0
	if text := c.String("slots"); text != slotsOfPool {
		var err error
		if slots, err = slotsFlag(text, runview.ShellWord(name)+" --key "+runview.ShellWord(key)); err != nil {
			return err
		}
	}
	return e.withPool(c.Context, name, func(store *queue.Store, p *queue.Pool) error {
		if err := store.SetPoolKey(c.Context, name, key, slots); err != nil {
			return err
		}
		text := "  slots " + strconv.Itoa(slots)
		if slots == 0 {
			text = "  as the pool: " + limitsText(p.PoolLimits)
		}
		return e.sayPoolKey(c.Context, store, p, key, "set", func(queue.PoolKey) string { return e.stdoutPaint().Dim(text) })
	})
}

func runPoolsClose(c *cli.Context, e *env) error {
	name, key, err := e.onePool(c)
	if err != nil {
		return err
	}
	within, err := duration("--for", c.String("for"))
	if err != nil {
		return err
	}
	if c.IsSet("for") && within < time.Millisecond {
		return &usageError{msg: fmt.Sprintf("--for: %q is no time to stay closed", c.String("for")), hint: "write a duration like 10m, or leave --for out"}
	}
	return e.withPool(c.Context, name, func(store *queue.Store, _ *queue.Pool) error {
		if err := store.ClosePool(c.Context, name, key, within); err != nil {
			return err
		}
		p, err := findPool(c.Context, store, name)
		if err != nil {
			return err
		}
		if key == "" {
			return e.sayPool(p, "closed", untilText(p.Closed))
		}
		return e.sayPoolKey(c.Context, store, p, key, "closed", func(k queue.PoolKey) string { return untilText(k.Closed) })
	})
}

func runPoolsOpen(c *cli.Context, e *env) error {
	name, key, err := e.onePool(c)
	if err != nil {
		return err
	}
	return e.withPool(c.Context, name, func(store *queue.Store, _ *queue.Pool) error {
		if err := store.OpenPool(c.Context, name, key); err != nil {
			return err
		}
		p, err := findPool(c.Context, store, name)
		if err != nil {
			return err
		}
		if key == "" {
			return e.sayPool(p, "opened", "")
		}
		if p.Closed.By != "" {
			e.remark("the whole pool is closed%s: `oarlock pools open %s` opens it", untilText(p.Closed), name)
		}
		return e.sayPoolKey(c.Context, store, p, key, "opened", func(queue.PoolKey) string { return "" })
	})
}

func runPoolsRemove(c *cli.Context, e *env) error {
	name, _, err := e.onePool(c)
	if err != nil {
		return err
	}
	return e.withPool(c.Context, name, func(store *queue.Store, p *queue.Pool) error {
		if err := store.RemovePool(c.Context, name); err != nil {
			return err
		}
		return e.sayPool(p, "removed", "")
	})
}

// withPool opens the store, and calls use with the pool of this name.
func (e *env) withPool(ctx context.Context, name string, use func(*queue.Store, *queue.Pool) error) error {
	return e.withStore(ctx, func(store *queue.Store) error {
		p, err := findPool(ctx, store, name)
		if err != nil {
			return err
		}
		return use(store, p)
	})
}

// sayPool prints a pool behind the word done, such as made, with more behind it.
func (e *env) sayPool(p *queue.Pool, done, more string) error {
	text := e.stdoutPaint().Good(done) + " " + p.Name + more + "\n"
	return e.say(answer{object: runview.NewPoolJSON(p), ids: []string{p.Name}, text: text})
}

// sayPoolKey reads a key of a pool, and prints it behind the word done, with the text of more behind it.
func (e *env) sayPoolKey(ctx context.Context, store *queue.Store, p *queue.Pool, key, done string, more func(queue.PoolKey) string) error {
	k := queue.PoolKey{Key: key}
	keys, err := store.PoolKeys(ctx, p.Name, key, 1)
	if err != nil {
		return err
	}
	if len(keys) > 0 {
		k = keys[0]
	}
	text := fmt.Sprintf("%s key %s of %s%s\n", e.stdoutPaint().Good(done), runview.InlineText(key), p.Name, more(k))
	return e.say(answer{object: poolKeyJSON(&k), ids: []string{p.Name}, text: text})
}
