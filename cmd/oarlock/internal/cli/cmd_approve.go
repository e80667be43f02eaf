package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const stepUsage = "RUN… STEP[/ITEM]"

func newApproveCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "approve",
		Usage:     "approve a step that waits for approval",
		ArgsUsage: stepUsage,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "input", Aliases: []string{"i"}, Usage: "answer an input that the step asks for, as `NAME=VALUE`; may be repeated"},
			&cli.StringSliceFlag{Name: "input-json", Usage: "answer an input with any JSON value, as `NAME=JSON`; may be repeated"},
			&cli.StringFlag{Name: "comment", Usage: "give this `TEXT` as the reason; the step gets it as its output \"comment\""},
			withinFlag(),
		},
		Description: manual{
			about: `The step succeeds, and the inputs that you give become its outputs. "oarlock approvals" lists the approvals that wait
for you, and the inputs that each step asks for. If a step names approvers, only they decide. With several runs, the
command prints one line for each, and exits with the highest status. A text such as true or 3 stands for a boolean or
a number where the input has that type, and an input of type json takes JSON; a value that does not fit is refused.
An input that you leave out has its default.`,
			examples: []string{
				"oarlock approve 41 confirm",
				"oarlock approve 41 confirm -i amount=700 --comment 'as agreed'",
				"oarlock approve 41 confirm -i env=staging -i ok=true",
			},
			exits: askExits,
		}.String(),
		Action: func(c *cli.Context) error {
			inputs, err := outputPairs("--input", c.StringSlice("input"), "--input-json", c.StringSlice("input-json"))
			if err != nil {
				return err
			}
			if comment := c.String("comment"); comment != "" {
				if _, twice := inputs["comment"]; twice {
					return &usageError{msg: "--comment and --input comment=… are the same", hint: "give --comment or --input comment=…"}
				}
				inputs["comment"] = comment
			}
			return runAskStep(c, e, queue.Ask{Verb: dagrun.VerbApprove, Outputs: orNothing(inputs)}, typedInputs)
		},
	}
}

func newRejectCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "reject",
		Usage:     "reject a step that waits for approval",
		ArgsUsage: stepUsage,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "comment", Usage: "give this `TEXT` as the reason why the step fails"},
			withinFlag(),
		},
		Description: manual{
			about:    `The step fails, with the kind rejected. Users that may approve a step may also reject it.`,
			examples: []string{"oarlock reject 41 confirm --comment 'wrong day'"},
			exits:    askExits,
		}.String(),
		Action: func(c *cli.Context) error {
			return runAskStep(c, e, queue.Ask{Verb: dagrun.VerbReject, Reason: c.String("comment")}, nil)
		},
	}
}

// orNothing returns nil for an empty map: an approval without inputs has no outputs.
func orNothing(m map[string]any) any {
	if len(m) == 0 {
		return nil
	}
	return m
}

// runAskStep sends ask to the step of each run that the arguments name, as typed changes it for the run; nil changes nothing. It
// returns a usageError if they name no step.
func runAskStep(c *cli.Context, e *env, ask queue.Ask, typed func(context.Context, *queue.Store, queue.Ask) (queue.Ask, error)) error {
	a, err := newAsking(c, e, ask.Verb, nil)
	if err != nil {
		return err
	}
	if a.target.step == "" {
		example := program + " " + ask.Verb.String() + " 41 confirm"
		if ask.Verb == dagrun.VerbMark {
			example += " --as succeeded"
		}
		return &usageError{msg: ask.Verb.String() + " needs a step", hint: "name a run and a step, like `" + example + "`"}
	}
	ask.Step, ask.Item = a.target.step, a.target.item
	a.send = sending(ask)
	if typed != nil {
		a.send = func(ctx context.Context, store *queue.Store, run queue.RunID) (controlResult, error) {
			ask.Run = run
			one, err := typed(ctx, store, ask)
			if err != nil {
				return controlResult{}, err
			}
			return sending(one)(ctx, store, run)
		}
	}
	return a.run(c.Context)
}

// typedInputs parses the texts for inputs of type json in ask, as "oarlock enqueue" does for params. It returns an error for a text
// that is no JSON. It changes nothing if the step waits for no approval that the user may decide: the database answers then.
func typedInputs(ctx context.Context, store *queue.Store, ask queue.Ask) (queue.Ask, error) {
	given, _ := ask.Outputs.(map[string]any)
	if len(given) == 0 {
		return ask, nil
	}
	waiting, err := store.Approvals(ctx, false, queue.MaxApprovals)
	if err != nil {
		return ask, err
	}
	i := slices.IndexFunc(waiting, func(a queue.Approval) bool { return a.Run == ask.Run && a.Step == ask.Step && a.Item == ask.Item })
	if i < 0 {
		return ask, nil
	}
	typed := maps.Clone(given)
	for _, in := range waiting[i].Inputs {
		text, isText := given[in.Name].(string)
		switch {
		case in.Type != "json" || !isText:
		case !json.Valid([]byte(text)):
			return ask, &failure{kind: invalid, err: fmt.Errorf("input %s: this is not JSON: %q", in.Name, text), hint: `quote a text: '"text"'`}
		default:
			typed[in.Name] = json.RawMessage(text)
		}
	}
	ask.Outputs = typed
	return ask, nil
}

const approvalsDefault = 20

func newApprovalsCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "approvals",
		Usage: "list the approvals that wait for you, with their questions",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "list also approvals that only other users decide, if you have the right to see them"},
			&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Usage: "list at most `N` approvals", Value: approvalsDefault},
		},
		Description: manual{
			about: `Shows the approvals that you may decide, oldest first. Each approval has its question, inputs and approvers, the
time since when it waits, and the command that approves it. If an approval names approvers, only these decide, also
in runs of other users. Otherwise each user that may control the run decides, and each member of oarlock_approve.
--all adds approvals of your own runs that others decide; readers and administrators see all approvals. -o id prints
RUN STEP, as "oarlock approve" takes them.`,
			examples: []string{
				"oarlock approvals",
				"oarlock approvals --all -o json | jq -r '.[] | [.run, .step, .prompt] | @tsv'",
				"oarlock approvals -n 1 -o id",
			},
			exits: []exitNote{
				{exitOK, "the list was read; it may be empty"},
				deniedNote, usageNote, unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return &usageError{msg: "approvals takes no arguments", hint: "`oarlock status RUN` shows what one run waits for"}
			}
			return runApprovals(c.Context, e, c.Bool("all"), c.Int("limit"))
		},
	}
}

func runApprovals(ctx context.Context, e *env, all bool, most int) error {
	if most < 1 || most > queue.MaxApprovals {
		return &usageError{msg: fmt.Sprintf("--limit is from 1 to %d, not %d", queue.MaxApprovals, most), hint: "leave out --limit for the oldest 20 approvals"}
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		read := min(most+1, queue.MaxApprovals) // the extra one shows whether there are more
		approvals, err := store.Approvals(ctx, all, read)
		if err != nil {
			return err
		}
		more := len(approvals) > most
		approvals = approvals[:min(len(approvals), most)]
		if err := e.say(e.approvalsAnswer(approvals, time.Now())); err != nil {
			return err
		}
		switch {
		case more:
			e.remark("%s", e.stderrPaint().Dim(fmt.Sprintf("there are more approvals: add -n %d", min(5*most, queue.MaxApprovals))))
		case len(approvals) == 0 && all:
			e.remark("there is no waiting approval that you may see")
		case len(approvals) == 0:
			return e.othersDecide(ctx, store)
		}
		return nil
	})
}

// othersDecide tells a user that has no approval to decide whether approvals wait for other users. It prints nothing if the output
// is for programs.
func (e *env) othersDecide(ctx context.Context, store *queue.Store) error {
	if e.settings.Text("output") != "table" {
		return nil
	}
	others, err := store.Approvals(ctx, true, 1)
	if err != nil {
		return err
	}
	if len(others) == 0 {
		e.remark("no approval waits for you")
	} else {
		e.remark("no approval waits for you: `oarlock approvals --all` lists the approvals that wait for other users")
	}
	return nil
}

type jsonApproval struct {
	Run         int64   `json:"run"`
	DAG         string  `json:"dag"`
	Step        string  `json:"step"`
	Item        *string `json:"item"`
	SubmittedBy string  `json:"submitted_by"`

	runview.QuestionJSON
}

func (e *env) approvalsAnswer(approvals []queue.Approval, now time.Time) answer {
	objects := make([]jsonApproval, len(approvals))
	a := answer{lines: []any{}, ids: []string{}, object: objects}
	blocks := make([]string, len(approvals))
	for i := range approvals {
		p := &approvals[i]
		objects[i] = jsonApproval{
			Run: int64(p.Run), DAG: p.DAG, Step: p.Step, Item: runview.TextOrNull(p.Item), SubmittedBy: p.SubmittedBy, QuestionJSON: runview.NewQuestionJSON(&p.Question),
		}
		a.lines = append(a.lines, objects[i])
		a.ids = append(a.ids, fmt.Sprintf("%d %s", p.Run, runview.ShellWord(runview.TaskName(p.Step, p.Item))))
		blocks[i] = e.stdoutPaint().approvalBlock(p, now, e.pageColumns())
	}
	a.text = strings.Join(blocks, "\n")
	return a
}

const questionMark = "  │ "

// approvalBlock describes an approval on some lines, folded to columns: which task waits, which approvers decide, the question, and
// the command that approves it.
func (p painter) approvalBlock(a *queue.Approval, now time.Time, columns int) string {
	q := &a.Question
	head := []string{
		p.Bold(fmt.Sprintf("run %d", a.Run)) + " " + runview.InlineText(a.DAG), p.Bold(runview.InlineText(runview.TaskName(a.Step, a.Item))),
		p.Dim("waits for " + runview.Span(now.Sub(q.Since))), "decided by " + runview.Deciders(q.Approvers, a.SubmittedBy),
	}
	if !q.Deadline.IsZero() {
		head = append(head, p.Warn("times out in "+runview.Span(q.Deadline.Sub(now))))
	}
	lines := []string{term.Fold(strings.Join(head, "  "), columns, term.Width(questionMark))}
	for _, line := range runview.QuestionLines(q) {
		lines = append(lines, term.Fold(p.Dim(questionMark)+line, columns, term.Width(questionMark)))
	}
	if q.MayDecide {
		lines = append(lines, "  "+runview.ApproveCommand(a.Run, runview.TaskName(a.Step, a.Item), q)) // printed unchanged, so that it can be copied
	}
	return strings.Join(lines, "\n") + "\n"
}
