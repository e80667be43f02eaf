package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

type enqueueOptions struct {
	params, labels []string
	key, at, queue string
	priority       *int
	version        int
	wait           bool
	how            waiting
}

func newEnqueueCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "enqueue",
		Usage:     "ask for a run of a registered DAG",
		ArgsUsage: "DAG",
		Flags: append([]cli.Flag{
			&cli.StringSliceFlag{Name: "param", Aliases: []string{"p"}, Usage: "a param of the run, as `NAME=VALUE`; may be repeated"},
			&cli.StringFlag{Name: "key", Usage: "make only one run, even if you repeat this request with this `KEY`"},
			&cli.StringFlag{Name: "at", Usage: "start the run not before this `TIME`: RFC 3339, '2026-11-20 06:00' in the local zone, or +10m"},
			&cli.IntFlag{Name: "priority", Usage: "priority `N` of the run, from -100 to 100; a higher priority starts first", DefaultText: "the DAG's"},
			&cli.StringFlag{Name: "queue", Usage: "put the run into this `QUEUE` instead of the DAG's queue"},
			&cli.StringSliceFlag{Name: "label", Aliases: []string{"l"}, Usage: "a label of the run, as `NAME=VALUE`; may be repeated"},
			versionFlag(),
			&cli.BoolFlag{Name: "wait", Usage: "wait until the run ends, show it, and exit with its status"},
			&cli.StringFlag{Name: timeoutFlag, Usage: "with --wait: stop waiting after this `DURATION`; the run goes on"},
		}, progressFlags("live, plain or none")...),
		Description: manual{
			about: `Prints the run; -o id prints only its number. The DAG declares the types of params: a json param takes JSON, every
other param takes the text as it is. The DAG's "allow:" says which settings a request may change. If you interrupt
--wait, the run goes on. With --key you can repeat the command after any failure.
` + progressAbout,
			examples: []string{
				"oarlock enqueue etl -p day=2026-11-20",
				"run=$(oarlock enqueue etl -p day=2026-11-20 --key etl-2026-11-20 -o id)",
				"oarlock enqueue etl --at +10m --priority 5 --label team=data",
				"oarlock enqueue etl --wait --timeout 1h && echo fine",
			},
			exits: []exitNote{
				{exitOK, "the run exists; with --wait: the run succeeded"},
				deniedNote,
				usageNote,
				{exitNotFound, "the DAG or the version does not exist"},
				{exitConflict, "the key belongs to another request, or the queue is full"},
				{exitUnreachable, "the database cannot be reached; or the connection broke, and it is unknown whether the run was made"},
				{exitInvalid, "a param is unknown, missing or invalid, or the DAG does not allow a flag; or a setting is wrong"},
				{exitRunFailed, "--wait: the run failed"},
				{exitRunCanceled, "--wait: the run was canceled"},
				{exitTimeout, "--wait: the run did not end in time; it goes on"},
			},
		}.String(),
		Action: func(c *cli.Context) error {
			o := enqueueOptions{
				params: c.StringSlice("param"), labels: c.StringSlice("label"), key: c.String("key"), at: c.String("at"),
				queue: c.String("queue"), version: c.Int("version"), wait: c.Bool("wait"),
			}
			var err error
			if o.how, err = e.readWaiting(c, "wait", true); err != nil {
				return err
			}
			if c.IsSet("priority") {
				o.priority = new(c.Int("priority"))
			}
			return runEnqueue(c.Context, e, c.Args().Slice(), o)
		},
	}
}

func runEnqueue(ctx context.Context, e *env, args []string, o enqueueOptions) error {
	name, err := oneDAG("enqueue", args)
	if err != nil {
		return err
	}
	request, err := o.request(name, time.Now())
	if err != nil {
		return err
	}
	params, err := pairs("-p", o.params)
	if err != nil {
		return &failure{kind: invalid, err: err, hint: "`oarlock dag show " + name + "` lists the params"}
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		if request.Params, err = typedParams(ctx, store, name, o.version, params, false); err != nil {
			return err
		}
		id, err := store.Enqueue(ctx, request)
		if err != nil {
			return orNoDAG(ctx, store, name, err)
		}
		if o.wait {
			return e.awaitRun(ctx, store, id, o.how)
		}
		return e.sayEnqueued(ctx, store, id)
	})
}

// request returns the request that the flags describe, without params: only the database knows their types. It returns a usageError
// for a bad time or label.
func (o *enqueueOptions) request(name string, now time.Time) (r queue.Request, err error) {
	r = queue.Request{DAG: name, Key: o.key, Priority: o.priority, Queue: o.queue, Version: o.version, Manual: true}
	var errs [2]error
	r.RunAt, errs[0] = upcoming("--at", o.at, now, time.Local)
	r.Labels, errs[1] = pairs("--label", o.labels)
	for _, err := range errs {
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// typedParams parses params by the types that a version of the DAG declares; version 0 is the current one. It does not fill in
// defaults: the database does, so that two requests with the same key are equal. If the login is not allowed to read DAGs,
// typedParams returns the texts as they are. partial is as for
// runview.TypedParams.
func typedParams(ctx context.Context, store *queue.Store, name string, version int, given map[string]string, partial bool) (map[string]any, error) {
	params := runview.LooseParams(given)
	if len(given) == 0 {
		return params, nil
	}
	_, spec, err := getDAG(ctx, store, name, version)
	if err != nil {
		if diagnose(ctx, err).kind == denied {
			return params, nil
		}
		return nil, err
	}
	if params, err = runview.TypedParams(spec, given, partial); err != nil {
		return nil, badParams(spec, err, "`oarlock dag show "+name+"` lists the params")
	}
	return params, nil
}

func badParams(spec *dagspec.Spec, err error, hint string) error {
	problems, ok := errors.AsType[dagspec.ParamErrors](err)
	if !ok {
		return &failure{kind: invalid, err: err}
	}
	var known, lines []string
	for i := range spec.ParamDefs {
		known = append(known, spec.ParamDefs[i].Name)
	}
	typo, other := "", ""
	for _, p := range problems {
		lines = append(lines, fmt.Sprintf("param %q: %s", p.Name, p.Msg))
		typo, other = cmp.Or(typo, didYouMean(p.Name, known)), cmp.Or(other, p.Hint)
	}
	return &failure{kind: invalid, err: errors.New(strings.Join(lines, "; ")), hint: cmp.Or(typo, other, hint)}
}

// didYouMean returns a hint with the known name that is most like name. It returns "" if name is known itself, or if none is near.
func didYouMean(name string, known []string) string {
	if slices.Contains(known, name) {
		return ""
	}
	return config.DidYouMean(name, known)
}

// sayEnqueued prints the run that was made. If the run cannot be read, it returns an error that says that the run was made. With -o
// id it does not read the run.
func (e *env) sayEnqueued(ctx context.Context, store *queue.Store, id queue.RunID) error {
	a := answer{ids: []string{decimal(int64(id))}}
	if e.settings.Text("output") == "id" {
		return e.say(a)
	}
	run, err := store.Get(ctx, id)
	if err != nil {
		return fmt.Errorf("run %d was made, but cannot be read: %w", id, err)
	}
	why := run.Reason
	if run.State == "queued" && e.settings.Text("output") == "table" {
		if isCopy, err := store.MayBeCopy(ctx); err == nil { // the run was made, even if nothing else can be read
			why = cmp.Or(isCopy, why)
		}
	}
	a.object, a.text = runview.NewRunJSON(run), e.stdoutPaint().enqueued(run, why)
	return e.say(a)
}

// enqueued describes a new run: its state, why it is in that state, and the command that follows it. why is "" if there is no
// reason.
func (p painter) enqueued(run *queue.Run, why string) string {
	text := fmt.Sprintf("run %s of %s version %d is %s", p.Bold(decimal(int64(run.ID))), run.DAG, run.Version, p.runState(run.State))
	switch {
	case run.State == "scheduled":
		text += " for " + runview.LocalTime(run.RunAt)
	case why != "":
		text += p.Dim(": " + runview.Printable(why))
	}
	return text + "\n" + p.Dim(fmt.Sprintf("oarlock status %d -w", run.ID)) + "\n"
}
