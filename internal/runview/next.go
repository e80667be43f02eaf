package runview

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/oarlock-dev/oarlock/queue"
)

const (
	approvalHintsMax = 5 // commands that approve
	taskHintsMax     = 3 // commands about tasks; only approvals add more
)

// Command is a command to type next.
type Command struct {
	Text string // as a shell takes it: oarlock logs 41 load
	Why  string // purpose of the command: See what load wrote
}

// Around is the input of Next besides a run and its tasks.
type Around struct {
	Current int  // newest version of the DAG; 0: unknown
	Watched bool // the person follows the run already: Next leaves out the command for that, and the one that starts a worker
	Admin   bool // the person may control queues and DAGs
	Part    bool // the person sees only the part of the run that an approver sees, and may only decide approvals

	Obstacles queue.Obstacles // of a queued run; zero: unknown
	IsCopy    bool            // this database is a copy, in which no worker claims runs: Next suggests starting none
}

// Next returns the commands that a person may want to type about a run now. tasks need not hold all tasks of the run:
// commands about missing tasks are then missing too.
func Next(r *queue.Run, tasks []queue.Task, around Around) []Command {
	next := taskCommands(r, tasks, around.Part)
	if around.Part {
		return next
	}
	add := func(why, format string, args ...any) {
		next = append(next, Command{Text: fmt.Sprintf(format, args...), Why: why})
	}
	if r.State == "queued" {
		next = append(next, clearCommands(r, around)...)
	}
	if step := failedStep(tasks); step != "" && (r.State == "running" || r.State == "waiting" || r.State == "paused") {
		add("Repeat "+InlineText(step)+" in this run", "oarlock retry %d --step %s", r.ID, ShellWord(step))
	}
	again := "Run the failed steps again"
	if r.State == "canceled" {
		again = "Run the canceled steps again"
	}
	switch here := IsHere(r); {
	case r.State == "failed" && invalidParam(r.Reason) != "":
		add("Make a new run with another value", "oarlock retry %d -p %s", r.ID, ShellWord(invalidParam(r.Reason)+"="))
	case (r.State == "failed" || r.State == "canceled") && here:
		add(again+", here", "oarlock retry %d && oarlock worker --only %d", r.ID, r.ID)
	case r.State == "failed" || r.State == "canceled":
		add(again, "oarlock retry %d", r.ID)
	case r.State == "queued" && here && !around.Watched:
		add("Execute the run here", "oarlock worker --only %d", r.ID)
	case r.State == "paused":
		add("Let the run go on", "oarlock resume %d", r.ID)
	case !r.Over() && !around.Watched:
		add("Watch the run end", "oarlock status %d -w", r.ID)
	}
	if (r.State == "failed" || r.State == "canceled") && around.Current > r.Version {
		add(fmt.Sprintf("Make a new run of version %d; retry without --latest repeats version %d", around.Current, r.Version), "oarlock retry %d --latest", r.ID)
	}
	return next
}

var invalidReason = regexp.MustCompile(`^invalid: param "([^"]+)": (unknown)?`)

// invalidParam returns the param that the reason of a failed run names as invalid, unless the DAG has no such param: the run fails
// again with the same params. It returns "" for any other reason.
func invalidParam(reason string) string {
	if m := invalidReason.FindStringSubmatch(reason); m != nil && m[2] == "" {
		return m[1]
	}
	return ""
}

// failedStep returns the first step or item that failed and that a person can repeat while its run is under way. It returns "" if
// none did.
func failedStep(tasks []queue.Task) string {
	for i := range tasks {
		if t := &tasks[i]; t.State == "failed" && t.Attempt > 0 && HasLog(t) && !strings.HasPrefix(t.Step, "@") && !strings.Contains(t.Step, "~") {
			return TaskName(t.Step, t.Item)
		}
	}
	return ""
}

// clearCommands returns the commands that remove the obstacles of a queued run, and commands that show them. It offers to end a
// pause only to an administrator, and only for a run that has not begun, because a pause holds back no other run.
func clearCommands(r *queue.Run, around Around) (next []Command) {
	add := func(isSo bool, why, format string, args ...any) {
		if isSo {
			next = append(next, Command{Text: fmt.Sprintf(format, args...), Why: why})
		}
	}
	o, pausable := &around.Obstacles, around.Admin && r.StartedAt.IsZero()
	name, dag := ShellWord(r.Queue), ShellWord(r.DAG)
	add(o.QueuePaused && pausable, "Let queue "+InlineText(r.Queue)+" start runs again", "oarlock queues resume %s", name)
	add(o.DAGPaused && pausable, "Let "+InlineText(r.DAG)+" start runs again", "oarlock dag resume %s", dag)
	worker := "oarlock worker"
	if o.Unserved {
		worker += " --queue " + name
	}
	for _, label := range o.Labels {
		worker += " --label " + ShellWord(label)
	}
	add((o.Unserved || len(o.Labels) > 0) && !around.IsCopy && !IsHere(r), "Start a worker that takes the run", "%s", worker)
	add(o.QueueFull > 0, "See the running runs of queue "+InlineText(r.Queue), "oarlock list --queue %s --state running", name)
	add(o.QueueFull > 0 && around.Admin, "Let queue "+InlineText(r.Queue)+" run more runs at once", "oarlock queues set %s --max-running %d", name, o.QueueFull+1)
	add(o.DAGFull, "See the active runs of "+InlineText(r.DAG), "oarlock list --dag %s --state running --state waiting --state paused", dag)
	return next
}

// taskCommands returns commands about single tasks: to approve one, to read the log of a failed one, to resume a paused one. With
// part it returns only the commands that approve.
func taskCommands(r *queue.Run, tasks []queue.Task, part bool) (next []Command) {
	approvals := 0
	for i := range tasks {
		t := &tasks[i]
		name := TaskName(t.Step, t.Item)
		switch {
		case t.Approval != nil && t.Approval.MayDecide && approvals < approvalHintsMax:
			approvals++
			next = append(next, Command{ApproveCommand(r.ID, name, t.Approval), "Approve " + InlineText(name)})
		case part:
		case t.State == "failed" && t.Attempt > 0 && HasLog(t) && len(next) < taskHintsMax:
			next = append(next, Command{fmt.Sprintf("oarlock logs %d %s", r.ID, ShellWord(name)), "See what " + InlineText(name) + " wrote"})
		case t.State == "paused" && r.State != "paused" && len(next) < taskHintsMax:
			next = append(next, Command{fmt.Sprintf("oarlock resume %d %s", r.ID, ShellWord(name)), "Let " + InlineText(name) + " go on"})
		}
	}
	return next
}

// ApproveCommand returns the command that approves a task, with "-i NAME=" for each required input, which the person completes.
// task is a name from TaskName.
func ApproveCommand(run queue.RunID, task string, q *queue.Question) string {
	command := fmt.Sprintf("oarlock approve %d %s", run, ShellWord(task))
	for _, in := range q.Inputs {
		if in.Required {
			command += " -i " + ShellWord(in.Name+"=")
		}
	}
	return command
}
