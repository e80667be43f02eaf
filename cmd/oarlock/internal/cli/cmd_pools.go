package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// Bounds of the lists of `pools show`.
const (
	permitsDefault = 100
	permitsMax     = 100_000
)

func newPoolsCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "pools",
		Usage: "list pools, which limit steps of the whole cluster, and make, close and remove them",
		Description: manual{
			about: `Lists pools. A pool limits how many bodies of steps run at once on all workers together, how many start in a time, or
both. A step names its pools with "pool:". SLOTS and RATE are the limits, TAKEN the slots in use. WAITING counts bodies
which a worker could soon start, and which wait for the pool. For readers (role oarlock_read).`,
			examples: []string{
				"oarlock pools",
				"oarlock pools set heavy --slots 5",
				"oarlock pools show heavy",
				"oarlock pools close heavy --for 10m",
				"oarlock pools -o json | jq -r '.[] | select(.waiting > 0) | .name'",
			},
			exits: []exitNote{{exitOK, "the list was read; it may be empty"}, deniedNote, usageNote, unreachableNote, settingsNote},
		}.String(),
		Action: func(c *cli.Context) error { return runPools(c.Context, e) },
		Subcommands: []*cli.Command{
			newPoolsShowCommand(e),
			newPoolsSetCommand(e),
			newPoolsCloseCommand(e),
			newPoolsOpenCommand(e),
			newPoolsRemoveCommand(e),
		},
	}
}

func newPoolsShowCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show a pool: its limits, which runs have it, and which wait for it",
		ArgsUsage: "POOL",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "key", Usage: "list only this `KEY`"},
			&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Usage: "list at most `N` keys and at most N permits", Value: permitsDefault},
		},
		Description: manual{
			about: `Shows the limits of a pool, and the keys that are closed or have a number of slots of their own. Then it lists permits:
first the permits that workers have, and then the permits that workers wait for, in the order in which they get them. A
worker can keep a permit from one body to the next, so RUN is the run that used the permit last. The numbers above the
lists count the whole pool, also with --key. For readers (role oarlock_read).`,
			examples: []string{"oarlock pools show heavy", "oarlock pools show crm --key acme", "oarlock pools show heavy -o json | jq '.permits[].run'"},
			exits: []exitNote{
				{exitOK, "the pool was read"},
				deniedNote, usageNote,
				{exitNotFound, "the pool does not exist"},
				unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error { return runPoolsShow(c, e) },
	}
}

func runPools(ctx context.Context, e *env) error {
	return e.withStore(ctx, func(store *queue.Store) error {
		pools, err := store.Pools(ctx, "")
		if err != nil {
			return err
		}
		if err := e.say(e.poolsAnswer(pools)); err != nil {
			return err
		}
		if len(pools) == 0 {
			e.remark("there are no pools: `oarlock pools set NAME --slots N` makes one")
		}
		return nil
	})
}

func runPoolsShow(c *cli.Context, e *env) error {
	ctx, limit := c.Context, c.Int("limit")
	name, key, err := e.onePool(c)
	if err != nil {
		return err
	}
	if limit < 1 || limit > permitsMax {
		return &usageError{msg: fmt.Sprintf("--limit is from 1 to %d, not %d", permitsMax, limit)}
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		p, err := findPool(ctx, store, name)
		if err != nil {
			return err
		}
		keys, err := store.PoolKeys(ctx, name, key, limit+1)
		if err != nil {
			return err
		}
		permits, err := store.PoolPermits(ctx, name, key, limit+1)
		if err != nil {
			return err
		}
		more := max(len(keys), len(permits)) > limit
		keys, permits = keys[:min(limit, len(keys))], permits[:min(limit, len(permits))]
		text := e.stdoutPaint().poolSheet(p, keys, permits, e.pageColumns())
		if err := e.say(answer{object: poolShownJSON(p, keys, permits), ids: []string{p.Name}, text: text}); err != nil {
			return err
		}
		if more {
			e.remark("%s", e.stderrPaint().Dim(fmt.Sprintf("there are more keys or permits: add --key KEY, or -n %d", 10*limit)))
		}
		return nil
	})
}

// onePool returns the pool and the key that the command line names; key is "" without --key.
func (e *env) onePool(c *cli.Context) (name, key string, err error) {
	if c.NArg() != 1 {
		return "", "", &usageError{
			msg:  fmt.Sprintf("%s needs one pool, got %d arguments", strings.TrimPrefix(e.command, program+" "), c.NArg()),
			hint: "`oarlock pools` lists the pools",
		}
	}
	name, key = c.Args().First(), c.String("key")
	if c.IsSet("key") && key == "" {
		return "", "", &usageError{msg: "--key: a key has 1 to 200 bytes", hint: "leave --key out for the whole pool"}
	}
	return name, key, nil
}

// findPool reads a pool. If there is none of this name, its error names one that the user may have meant.
func findPool(ctx context.Context, store *queue.Store, name string) (*queue.Pool, error) {
	pools, err := store.Pools(ctx, "")
	if err != nil {
		return nil, err
	}
	var known []string
	for i := range pools {
		if pools[i].Name == name {
			return &pools[i], nil
		}
		known = append(known, pools[i].Name)
	}
	hint := cmp.Or(didYouMean(name, known), "`oarlock pools` lists the pools")
	return nil, &failure{kind: notFound, err: fmt.Errorf("there is no pool %q", name), hint: hint}
}

type jsonPoolShown struct {
	runview.PoolJSON

	KeyLimits []jsonPoolKey `json:"key_limits"`
	Permits   []jsonPermit  `json:"permits"`
}

type jsonPoolKey struct {
	Key         string     `json:"key"`
	Slots       *int       `json:"slots"` // null: as the pool
	ClosedUntil *time.Time `json:"closed_until"`
	ClosedBy    *string    `json:"closed_by"`
}

type jsonPermit struct {
	Key       string     `json:"key"`
	Worker    *string    `json:"worker"`
	Run       *int64     `json:"run"`
	DAG       *string    `json:"dag"`
	Weight    int        `json:"weight"`
	Since     *time.Time `json:"since"`
	GrantedAt *time.Time `json:"granted_at"` // null: the worker waits
}

func poolKeyJSON(k *queue.PoolKey) jsonPoolKey {
	j := jsonPoolKey{Key: k.Key, ClosedUntil: runview.TimeOrNull(k.Closed.Until), ClosedBy: runview.TextOrNull(k.Closed.By)}
	if k.Slots > 0 {
		j.Slots = &k.Slots
	}
	return j
}

func poolShownJSON(p *queue.Pool, keys []queue.PoolKey, permits []queue.PoolPermit) jsonPoolShown {
	j := jsonPoolShown{PoolJSON: runview.NewPoolJSON(p), KeyLimits: []jsonPoolKey{}, Permits: []jsonPermit{}}
	for i := range keys {
		j.KeyLimits = append(j.KeyLimits, poolKeyJSON(&keys[i]))
	}
	for i := range permits {
		h := &permits[i]
		j.Permits = append(j.Permits, jsonPermit{
			h.Key, runview.TextOrNull(h.Worker), runview.RunOrNull(h.Run), runview.TextOrNull(h.DAG), h.Weight, runview.TimeOrNull(h.Since), runview.TimeOrNull(h.GrantedAt),
		})
	}
	return j
}

func (e *env) poolsAnswer(pools []queue.Pool) answer {
	paint := e.stdoutPaint()
	object := []runview.PoolJSON{}
	a := answer{lines: []any{}, ids: []string{}}
	t := term.Table{Head: paint.head("NAME", "SLOTS", "RATE", "TAKEN", "WAITING", "STATE", "NOTE")}
	for i := range pools {
		p := &pools[i]
		j := runview.NewPoolJSON(p)
		object = append(object, j)
		a.lines = append(a.lines, j)
		a.ids = append(a.ids, p.Name)
		t.Rows = append(t.Rows, []string{
			p.Name, cmp.Or(runview.PoolSlots(p.PoolLimits), paint.Dim("–")), cmp.Or(runview.PoolRate(p.PoolLimits), paint.Dim("–")), decimal(p.Taken), waitingText(p),
			paint.poolState(p.Closed), paint.Dim(runview.InlineText(p.Note)),
		})
	}
	a.object = object
	if len(pools) > 0 {
		a.text = e.fitted(t.String())
	}
	return a
}

// waitingText returns how many permits workers wait for, and the age of the oldest request: 3, oldest 12s.
func waitingText(p *queue.Pool) string {
	if p.Waiting == 0 {
		return "0"
	}
	return fmt.Sprintf("%d, oldest %s", p.Waiting, runview.Span(p.Oldest))
}

// poolState returns the state of a pool, or of a key: open, or until when it is closed.
func (p painter) poolState(c queue.PoolClosure) string {
	if c.By == "" {
		return p.Good("open")
	}
	return p.Warn("closed"+untilText(c)) + p.Dim(" by "+runview.InlineText(c.By))
}

// untilText returns until when something is closed, with a space before it. It returns "" if that ends only by opening it.
func untilText(c queue.PoolClosure) string {
	if c.Until.IsZero() {
		return ""
	}
	return " until " + runview.LocalTime(c.Until)
}

// poolSheet describes a pool on a page: its limits, its keys that differ, and its permits. It folds the title to columns.
func (p painter) poolSheet(pool *queue.Pool, keys []queue.PoolKey, permits []queue.PoolPermit, columns int) string {
	var rows [][]string
	fact := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{p.Dim(name), value})
		}
	}
	fact("slots", runview.PoolSlots(pool.PoolLimits))
	fact("rate", runview.PoolRate(pool.PoolLimits))
	fact("taken", decimal(pool.Taken))
	fact("waiting", waitingText(pool))
	fact("note", runview.InlineText(pool.Note))
	fact("set", runview.LocalTime(pool.SetAt)+p.Dim(" by "+runview.InlineText(pool.SetBy)))
	text := term.Fold(p.Bold(pool.Name)+"  "+p.poolState(pool.Closed), columns, 0) + "\n\n" + term.AlignRows(rows)
	if len(keys) > 0 {
		t := term.Table{Head: p.head("KEY", "SLOTS", "STATE")}
		for i := range keys {
			k := &keys[i]
			t.Rows = append(t.Rows, []string{runview.InlineText(k.Key), p.limit(cmp.Or(k.Slots, pool.Slots)), p.poolState(k.Closed)})
		}
		text += "\n" + t.String()
	}
	if len(permits) > 0 {
		t := term.Table{Head: p.head("PERMIT", "SINCE", "RUN", "DAG", "WORKER", "KEY", "WEIGHT")}
		for i := range permits {
			h := &permits[i]
			state, since := p.Warn("waits"), h.Since
			if !h.GrantedAt.IsZero() {
				state, since = p.Good("taken"), h.GrantedAt
			}
			t.Rows = append(t.Rows, []string{
				state, p.Dim(runview.LocalTime(since)), decimal(int64(h.Run)), cmp.Or(h.DAG, p.Dim("–")),
				cmp.Or(runview.Printable(h.Worker), p.Dim("–")), cmp.Or(runview.InlineText(h.Key), p.Dim("–")), strconv.Itoa(h.Weight),
			})
		}
		text += "\n" + t.String()
	}
	return text
}
