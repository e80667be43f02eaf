package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	pruneBatch     = 1000
	maxPruneRounds = 100_000 // rounds of one command
)

func newPruneCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "prune",
		Usage: "delete runs, logs, keys and workers that are past their retention",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "only count the rows that would be deleted"},
			&cli.IntFlag{Name: "batch", Usage: "delete at most `N` runs in a transaction", Value: pruneBatch},
		},
		Description: manual{
			about: `Deletes finished runs with everything that belongs to them, by the retention of their DAG: days and runs. Deletes a
day of logs once no DAG keeps it (logs_days), a key a week after its run, and a worker a week after its end. The
command repeats short transactions until nothing is left; you can interrupt and repeat it at any time. --dry-run is
for readers (role oarlock_read), a deletion is for administrators (role oarlock_admin).`,
			examples: []string{"oarlock prune --dry-run", "oarlock prune", "oarlock prune --batch 100 -o json"},
			exits: []exitNote{
				{exitOK, "nothing is left to delete; --dry-run: the rows were counted"},
				deniedNote, usageNote, unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error { return runPrune(c.Context, e, c.Bool("dry-run"), c.Int("batch")) },
	}
}

// jsonPruned counts what was deleted, or would be deleted.
type jsonPruned struct {
	DryRun  bool            `json:"dry_run"`
	Capped  bool            `json:"capped"` // at least one number is a lower bound
	Runs    int64           `json:"runs"`
	Keys    int64           `json:"keys"`
	LogDays int64           `json:"log_days"`
	Workers int64           `json:"workers"`
	DAGs    []jsonPrunedDAG `json:"dags"` // null: not counted by DAG
}

type jsonPrunedDAG struct {
	DAG    string     `json:"dag"`
	Runs   int64      `json:"runs"`
	Oldest *time.Time `json:"oldest"`
}

func runPrune(ctx context.Context, e *env, dryRun bool, batch int) error {
	if dryRun {
		e.command = program + " " + dryPrune
	}
	if batch < 1 || batch > queue.MaxCounted {
		return &usageError{msg: fmt.Sprintf("--batch is from 1 to %d, not %d", queue.MaxCounted, batch)}
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		if dryRun {
			return e.countPrunable(ctx, store)
		}
		sum, err := prune(ctx, store, batch)
		if err != nil {
			if sum != (queue.Pruned{}) {
				e.remark("deleted %s before the error", prunedCount{Pruned: sum})
			}
			return err
		}
		text := "deleted " + prunedCount{Pruned: sum}.String() + "\n"
		if sum == (queue.Pruned{}) {
			text = "nothing is past its retention\n"
		}
		return e.say(answer{object: prunedJSON(sum), text: text})
	})
}

// prune repeats rounds until a round deletes no run and fewer than batch keys, or for maxPruneRounds. A round deletes at most batch
// runs. It returns how much it deleted, even if it fails.
func prune(ctx context.Context, store *queue.Store, batch int) (sum queue.Pruned, err error) {
	for range maxPruneRounds {
		p, err := store.Prune(ctx, batch)
		if err != nil {
			return sum, err
		}
		sum.Runs, sum.Keys, sum.LogDays, sum.Workers = sum.Runs+p.Runs, sum.Keys+p.Keys, sum.LogDays+p.LogDays, sum.Workers+p.Workers
		if p.Runs == 0 && p.Keys < int64(batch) {
			break
		}
	}
	return sum, nil
}

func (e *env) countPrunable(ctx context.Context, store *queue.Store) error {
	p, err := store.Prunable(ctx)
	if err != nil {
		return err
	}
	return e.say(prunableAnswer(&p, e.stdoutPaint()))
}

// prunableAnswer returns the answer of a dry run: how many runs of each DAG, and how much in all, a prune would delete.
func prunableAnswer(p *queue.Prunable, paint painter) answer {
	j := prunedJSON(p.Pruned)
	j.DryRun, j.DAGs = true, []jsonPrunedDAG{}
	sum := prunedCount{Pruned: p.Pruned}
	t := term.Table{Head: paint.head("DAG", "RUNS", "OLDEST ENDED")}
	for i := range p.DAGs {
		d := &p.DAGs[i]
		j.DAGs = append(j.DAGs, jsonPrunedDAG{d.DAG, d.Runs, runview.TimeOrNull(d.Oldest)})
		t.Rows = append(t.Rows, []string{d.DAG, counted(d.Runs), runview.LocalTime(d.Oldest)})
		sum.runsCapped = sum.runsCapped || d.Runs >= queue.MaxCounted
	}
	sum.keysCapped = p.Keys >= queue.MaxCounted
	j.Capped = sum.runsCapped || sum.keysCapped
	text := "nothing is past its retention\n"
	if p.Pruned != (queue.Pruned{}) {
		text = "would delete " + sum.String() + "\n"
	}
	if len(t.Rows) > 0 {
		text = t.String() + "\n" + text
	}
	return answer{object: j, text: text}
}

// counted returns a number as text, with a "+" if counting stopped there.
func counted(n int64) string {
	if n >= queue.MaxCounted {
		return decimal(n) + "+"
	}
	return decimal(n)
}

func prunedJSON(p queue.Pruned) jsonPruned {
	return jsonPruned{Runs: p.Runs, Keys: p.Keys, LogDays: p.LogDays, Workers: p.Workers}
}

// prunedCount describes how much was deleted, or would be. A number at which counting stopped gets a "+".
type prunedCount struct {
	queue.Pruned

	runsCapped, keysCapped bool
}

func (p prunedCount) String() string {
	return fmt.Sprintf("%s, %s of logs, %s, %s",
		countAtLeast(p.Runs, p.runsCapped, "run"), runview.Count(int(p.LogDays), "day"), countAtLeast(p.Keys, p.keysCapped, "key"), runview.Count(int(p.Workers), "worker"))
}

// countAtLeast returns a number with its noun, such as "3 runs". If capped is set, the number is only a lower bound and gets a "+".
func countAtLeast(n int64, capped bool, noun string) string {
	if capped {
		return decimal(n) + "+ " + noun + "s"
	}
	return runview.Count(int(n), noun)
}
