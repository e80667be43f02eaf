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

// asks is what an approval asks of people, as it begins to wait.
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

// storedPrompt is a prompt as every store takes it: valid text without NUL, at most MaxPromptBytes.
func storedPrompt(prompt string) string {
	const replacement = "\ufffd"
	prompt = strings.ToValidUTF8(strings.ReplaceAll(prompt, "\x00", replacement), replacement)
	if len(prompt) <= MaxPromptBytes {
		return prompt
	}
	return strings.ToValidUTF8(prompt[:MaxPromptBytes-len(cutMark)], "") + cutMark
}

// waitsForApproval says in a few words whose decision an approval waits for.
func (s *Step) waitsForApproval() string {
	if !s.Reserved() {
		return "waits for approval"
	}
	return "waits for approval by " + anyOf(s.Approval.Approvers)
}

// question says what becomes of the question of an approval with the next record of its task. A task that waits since an
// earlier drive keeps what is stored.
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

// answerApproval decides an approval.
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
