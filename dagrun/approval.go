package dagrun

import "strings"

// askPeople begins an attempt that waits for people to decide.
func (r *Run) askPeople(t *task) {
	asks, err := r.asks(t)
	if err != nil {
		r.misconfigured(t, err.Error())
		return
	}
	r.attempt(t)
	if t.step.Timeout > 0 {
		t.Deadline = after(r.now, t.step.Timeout)
	}
	t.asks, t.Reason = asks, t.step.waitsForApproval()
	r.to(t, TaskWaiting)
}

// asks describes the question of an approval step, with its prompt filled in.
func (r *Run) asks(t *task) (*Asks, error) {
	a, asks := t.step.Approval, &Asks{Open: true}
	if a == nil {
		return asks, nil
	}
	asks.Inputs, asks.Approvers = a.Inputs, a.Approvers
	if a.Prompt == nil {
		return asks, nil
	}
	prompt, err := a.Prompt.Text(r.scope(t))
	asks.Prompt = storedPrompt(prompt)
	return asks, err
}

// cutMark ends a prompt that was cut.
const cutMark = "…"

// storedPrompt returns a prompt in a form that every store accepts: valid text without NUL, at most MaxPromptBytes long.
func storedPrompt(prompt string) string {
	const replacement = "\ufffd"
	prompt = strings.ToValidUTF8(strings.ReplaceAll(prompt, "\x00", replacement), replacement)
	if len(prompt) <= MaxPromptBytes {
		return prompt
	}
	return strings.ToValidUTF8(prompt[:MaxPromptBytes-len(cutMark)], "") + cutMark
}

// waitsForApproval returns the reason of a waiting approval, with the names of its approvers if it has any.
func (s *Step) waitsForApproval() string {
	if !s.Reserved() {
		return "waits for approval"
	}
	return "waits for approval by " + anyOf(s.Approval.Approvers)
}

// question returns the Asks for the next record of a task: open while an approval waits, closed once it waits no more. It
// returns nil, which leaves the stored question as it is, for other tasks and for an approval that waits since an earlier
// drive.
func (t *task) question() *Asks {
	switch {
	case t.step.Body != BodyApproval || t.grows():
		return nil
	case t.waits():
		return t.asks
	default:
		return &Asks{}
	}
}

// answerApproval applies an approve or reject control to a waiting approval. It refuses the control for any other task.
func (r *Run) answerApproval(t *task, c *Control) Decision {
	if !t.waits() || t.step.Body != BodyApproval {
		return taskRefused(t, "it does not wait for an approval but is "+t.State.String())
	}
	if c.Verb == VerbApprove {
		r.weigh(t, Result{Outputs: c.Outputs, Reason: byWhom("approved", c.By)})
	} else {
		reason := byWhom("rejected", c.By)
		if c.Text != "" {
			reason += ": " + c.Text
		}
		r.weigh(t, Result{Kind: KindRejected, Reason: reason})
	}
	return taskDecision(t, Applied)
}
