package cli

import (
	"fmt"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	questionMark = "  │ "
	promptLines  = 12 // of one prompt; how many more there are is said
)

// questionLines are what an approval asks, fit to be shown: the lines of its prompt, then its inputs.
func questionLines(q *queue.Question) []string {
	var lines []string
	if prompt := strings.TrimSpace(q.Prompt); prompt != "" {
		lines = strings.Split(prompt, "\n")
	}
	more := len(lines) - promptLines
	lines = lines[:min(len(lines), promptLines)]
	for i := range lines {
		lines[i] = shown(strings.TrimRight(lines[i], "\r\t "))
	}
	if more > 0 {
		lines = append(lines, "… "+count(more, "more line"))
	}
	if text := inputsText(q.Inputs); text != "" {
		lines = append(lines, "inputs: "+text)
	}
	return lines
}

// inputsText lists inputs: ticket (required), note.
func inputsText(inputs []queue.Input) string {
	names := make([]string, len(inputs))
	for i, in := range inputs {
		names[i] = shown(in.Name)
		if in.Required {
			names[i] += " (required)"
		}
	}
	return strings.Join(names, ", ")
}

// deciders says who decides an approval. Without approvers it is whoever may control the run.
func deciders(approvers []string, submitter string) string {
	if len(approvers) > 0 {
		return anyOf(approvers)
	}
	if submitter == "" {
		return "the submitter or an administrator"
	}
	return shown(submitter) + " or an administrator"
}

// anyOf lists names of which one is enough.
func anyOf(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = shown(name)
	}
	if last := len(all) - 1; last > 0 {
		return strings.Join(all[:last], ", ") + " or " + all[last]
	}
	return strings.Join(all, "")
}

// approveCommand is what to type, with each input that has to be given.
func approveCommand(run queue.RunID, task string, q *queue.Question) string {
	command := fmt.Sprintf("oarlock approve %d %s", run, shellWord(task))
	for _, in := range q.Inputs {
		if in.Required {
			command += " -i " + shellWord(in.Name+"=")
		}
	}
	return command
}

// approvalOf is what a step or handler of a spec asks as an approval, nil for any other. What a replacement asks is not known
// from its name.
func approvalOf(spec *dagspec.Spec, step string) *dagspec.Approval {
	for i := range spec.Steps {
		if s := &spec.Steps[i]; s.ID == step {
			return s.Approval()
		}
	}
	on := &spec.HandlerOn
	for name, s := range map[string]*dagspec.Step{"@init": on.Init, "@success": on.Success, "@failure": on.Failure, "@abort": on.Abort, "@exit": on.Exit} {
		if name == step && s != nil {
			return s.Approval()
		}
	}
	return nil
}

// asked are the lines below an approval that waits.
func (p *runPage) asked(t *queue.Task) []string {
	if t.Approval == nil {
		return nil
	}
	lines := questionLines(t.Approval)
	for i := range lines {
		lines[i] = p.dim(tailMark) + lines[i]
	}
	return lines
}

// toDecide are the lines of a log of changes that say what an approval asks, and how to approve it.
func (p *runPage) toDecide(t *queue.Task) []string {
	if t.Approval == nil {
		return nil
	}
	const mark = "            │ " // below what the line says of the task
	var lines []string
	for _, line := range questionLines(t.Approval) {
		lines = append(lines, mark+line)
	}
	if t.Approval.MayDecide {
		lines = append(lines, mark+approveCommand(p.run.ID, taskArg(t), t.Approval))
	}
	return lines
}
