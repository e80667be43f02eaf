package runview

import (
	"cmp"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

const promptLinesMax = 12 // of one prompt; a last line gives the number of the others

// QuestionLines returns the question of an approval as lines for a terminal: the lines of its prompt, and one last line with all
// inputs, such as "inputs: ticket (required), ok (boolean)". A prompt of more than promptLinesMax lines is cut there, and a line
// with the number of the other lines follows.
func QuestionLines(q *queue.Question) []string {
	lines := PromptLines(q)
	if text := inputsText(q.Inputs); text != "" {
		lines = append(lines, "inputs: "+text)
	}
	return lines
}

// PromptLines returns the prompt of an approval as lines, without its inputs, for a form that has fields for them. A prompt of more
// than promptLinesMax lines is cut there, and a line with the number of the other lines follows. Without a prompt it returns nil.
func PromptLines(q *queue.Question) []string {
	var lines []string
	if prompt := strings.TrimSpace(q.Prompt); prompt != "" {
		lines = strings.Split(prompt, "\n")
	}
	more := len(lines) - promptLinesMax
	lines = lines[:min(len(lines), promptLinesMax)]
	for i := range lines {
		lines[i] = InlineText(strings.TrimRight(lines[i], "\r\t "))
	}
	if more > 0 {
		lines = append(lines, "… "+Count(more, "more line"))
	}
	return lines
}

// inputsText returns inputs on one line, such as "ticket (required), env (dev or prod, default dev)". Without inputs it returns "".
func inputsText(inputs []dagspec.Param) string {
	names := make([]string, len(inputs))
	for i := range inputs {
		names[i] = InlineText(inputs[i].Name)
		if about := AboutInput(&inputs[i]); about != "" {
			names[i] += " (" + about + ")"
		}
		if what := strings.TrimSpace(inputs[i].Description); what != "" {
			names[i] += ": " + strings.TrimRight(InlineText(what), ".")
		}
	}
	return strings.Join(names, ", ")
}

// AboutInput says in a few words what an input takes: its type or its choices, its limits, and whether it is required or its
// default, such as "integer, at least 1, default 3". It returns "" for a text that may be left out.
func AboutInput(p *dagspec.Param) string {
	var about []string
	switch {
	case len(p.Enum) > 0:
		choices := make([]string, len(p.Enum))
		for i, v := range p.Enum {
			choices[i] = plainText(v)
		}
		about = append(about, anyOf(choices))
	case p.Type != "string":
		about = append(about, p.Type)
	}
	about = append(about, ParamLimits(p)...)
	if p.Required {
		about = append(about, "required")
	}
	if p.Default != nil {
		about = append(about, "default "+InlineText(plainText(p.Default)))
	}
	return strings.Join(about, ", ")
}

// ParamLimits returns the limits of a param or an input, each in a few words.
func ParamLimits(p *dagspec.Param) (limits []string) {
	if p.Minimum != nil {
		limits = append(limits, "at least "+CompactJSON(*p.Minimum))
	}
	if p.Maximum != nil {
		limits = append(limits, "at most "+CompactJSON(*p.Maximum))
	}
	if p.MinLength != nil {
		limits = append(limits, "at least "+Count(*p.MinLength, "character"))
	}
	if p.MaxLength != nil {
		limits = append(limits, "at most "+Count(*p.MaxLength, "character"))
	}
	if p.Pattern != "" {
		limits = append(limits, "like "+InlineText(p.Pattern))
	}
	return limits
}

// plainText returns a text as it is, and any other value as JSON.
func plainText(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	return CompactJSON(v)
}

// Deciders returns in words the people that may decide an approval: "a, b or c" for its approvers. Without approvers they are the
// submitter of the run, the members of oarlock_approve, and administrators. submitter "" means that the name is not known.
func Deciders(approvers []string, submitter string) string {
	if len(approvers) > 0 {
		return anyOf(approvers)
	}
	return cmp.Or(InlineText(submitter), "the submitter") + ", a member of oarlock_approve or an administrator"
}

// anyOf joins names as alternatives: "a, b or c".
func anyOf(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = InlineText(name)
	}
	if last := len(all) - 1; last > 0 {
		return strings.Join(all[:last], ", ") + " or " + all[last]
	}
	return strings.Join(all, "")
}

// approvalOf returns the approval of a step or handler of a spec, and nil if the step is no approval. It returns nil for a
// replacement too, because the name of a replacement does not lead to its question.
func approvalOf(spec *dagspec.Spec, step string) *dagspec.Approval {
	if named := spec.Named(step); named != nil {
		return named.Approval()
	}
	return nil
}
