package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	execDAG  = "exec"
	execStep = "command"

	exitNotStarted exit = 127 // as in shells
)

func newExecCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "exec",
		Usage:     "run one command here and now, recorded as a run",
		ArgsUsage: "-- COMMAND [ARG…]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "timeout", Usage: "end the command after this `DURATION`"},
		},
		Description: manual{
			about: `Runs COMMAND as the only step of a run of the DAG "exec". The run starts as with "oarlock run": in this folder, with
a worker of its own, and in a private database if the settings name none. The output comes byte for byte as COMMAND
writes it. Oarlock stores the output, too: type "oarlock logs @latest" to see it again.
No shell reads COMMAND, and its standard input is empty. COMMAND gets this environment without variables that look like
secrets (env_deny, see docs/worker.md). Oarlock stores the arguments: put no password there.
A signal cancels the run: COMMAND gets TERM, and KILL ten seconds later. With -o json the output goes to standard
error, and the run to standard output. Each call registers the DAG anew, so your login must be an administrator (role
oarlock_admin).`,
			examples: []string{
				"oarlock exec -- make test",
				"oarlock exec --timeout 10m -- ./backup.sh --full",
				"oarlock exec -- sh -c 'sort big.txt | uniq -c' > counts",
			},
			exits: []exitNote{
				{exitOK, "the command succeeded; any other status is the command's own, or 128 + N if signal N ended the command"},
				deniedNote, usageNote, unreachableNote, settingsNote,
				{exitRunCanceled, "the run was canceled before the command began"},
				{exitTimeout, "the command took longer than --timeout"},
				{exitNotStarted, "the command cannot be started"},
				{exitInterrupt, "the second Ctrl-C, or the first before the run began"},
			},
		}.String(),
		Action: func(c *cli.Context) error { return runExec(c.Context, e, c.Args().Slice(), c.String("timeout")) },
	}
}

func runExec(ctx context.Context, e *env, command []string, timeout string) error {
	if len(command) == 0 || command[0] == "" {
		return &usageError{msg: "exec needs a command", hint: "write the command after --, like `" + program + " exec -- make test`"}
	}
	if _, err := duration("--timeout", timeout); err != nil {
		return err
	}
	if e.settings.Text("output") == "id" {
		return &usageError{msg: "this command has nothing to print with -o id", hint: "use -o table, json or jsonl"}
	}
	file := &dagFile{name: execDAG, source: execSource(e.absolute("."), command, timeout)}
	file.check([]byte(file.source))
	if len(file.problems) > 0 {
		return &failure{kind: invalid, err: errors.New(file.problems[0].Msg), hint: file.problems[0].Hint}
	}
	labels := map[string]string{runview.HereLabel: runview.HereValue}
	request := queue.Request{DAG: execDAG, Selector: labels, Labels: labels, Manual: true}
	return e.runHere(ctx, here{file: file, request: request, show: e.showCommand})
}

// execSource returns the source of a DAG with one step, which runs the command in dir. It escapes references in the command's
// arguments, which the DAG would expand. timeout is "" for none.
func execSource(dir string, command []string, timeout string) string {
	step := map[string]any{"id": execStep, "name": filepath.Base(command[0]), "command": command[0], "working_dir": dir}
	if len(command) > 1 {
		args := make([]string, len(command)-1)
		for i, arg := range command[1:] {
			args[i] = strings.ReplaceAll(arg, "${", "$${")
		}
		step["args"] = args
	}
	if timeout != "" {
		step["timeout"] = timeout
	}
	text, err := json.MarshalIndent(map[string]any{"name": execDAG, "steps": []any{step}}, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("cli: a DAG of texts has no JSON form: %v", err))
	}
	return string(text) + "\n"
}

// showCommand prints the command's output as it comes, until the run is over, and returns an error if the command failed. With JSON
// the output goes to standard error, and the run follows on standard output.
func (e *env) showCommand(ctx context.Context, store *queue.Store, id queue.RunID) error {
	out := *e
	if isJSON(e.settings.Text("output")) {
		out.Stdout = e.Stderr
	}
	reader := store.OpenLogs(queue.LogQuery{Run: id, Step: execStep})
	sink := &streamSink{env: &out}
	for c, err := range reader.Follow(ctx, nil) {
		if err == nil {
			err = sink.add(&c)
		}
		if err != nil {
			return err
		}
	}
	run, err := store.Get(ctx, id)
	if err != nil {
		return err
	}
	tasks, err := store.Tasks(ctx, id)
	if err != nil {
		return err
	}
	if format := e.settings.Text("output"); isJSON(format) {
		if err := e.say(answer{object: runview.NewStatusJSON(run, tasks, nil)}); err != nil {
			return err
		}
	}
	return e.endOfCommand(run, tasks)
}

// endOfCommand returns the error of a run that did not succeed. If the command has an exit status, this process ends with that
// status. If the command could not be started, this process ends with exitNotStarted. In both cases this process prints no error,
// because the output of the command or a remark says what is wrong. endOfCommand makes the remark if the command could not be
// started or did not exit by itself.
func (e *env) endOfCommand(run *queue.Run, tasks []queue.Task) error {
	var task queue.Task
	if len(tasks) > 0 {
		task = tasks[0]
	}
	switch {
	case run.State == "succeeded":
		return nil
	case task.FailureKind == "spawn":
		e.remark("%s: %s", program, runview.Printable(task.Reason))
		return statusError(exitNotStarted)
	case task.ExitCode != nil && *task.ExitCode != 0:
		if task.FailureKind != "exit" {
			e.remark("%s: run %d %s", program, run.ID, runview.Printable(task.State+": "+task.Reason))
		}
		return statusError(*task.ExitCode)
	}
	return runEnd(run)
}

// streamSink copies each stream of the task to the same stream of this process.
type streamSink struct{ env *env }

func (s *streamSink) add(c *queue.Chunk) error {
	if c.Dropped > 0 {
		fmt.Fprintf(s.env.Stderr, "[%s are missing here]\n", runview.Count(int(c.Dropped), "byte"))
	}
	switch c.Stream {
	case queue.StreamStdout:
		return s.env.print(string(c.Data))
	case queue.StreamStderr:
		if _, err := s.env.Stderr.Write(c.Data); err != nil {
			return fmt.Errorf("write to standard error: %w", err)
		}
	case queue.StreamOarlock:
	}
	return nil
}
