package dagspec

import (
	"encoding/json"
	"reflect"
)

// Types with more than one form in a file, and defaults that are not zero values.

func (s *Spec) preset() {
	s.Queue, s.OnLost, s.MaxDrives = "default", "retry", 5
	s.Retention.preset()
}

func (r *Retention) preset() { *r = Retention{Days: 30, LogsDays: 14} }

func (p *Param) preset() { p.Type = "string" }

func (k *Kill) preset() { *k = standardKill }

var standardKill = Kill{Signal: "SIGTERM", Grace: 10 * second}

func (p *RetryPolicy) preset() {
	*p = RetryPolicy{Interval: 5 * second, Backoff: 2, MaxInterval: 5 * minute, Jitter: 0.2}
}

func (c *Cache) preset() { c.Scope = "submitter" }

func (f *Foreach) preset() {
	f.As, f.Batch, f.MaxConcurrent, f.MaxItems = "item", 1, 10, 1000
}

func (e *Depend) fromNode(d *decoder, n *node) {
	if e.State = "succeeded"; n.kind == kindString {
		e.Step = n.text()
		return
	}
	d.fields(n, reflect.ValueOf(e).Elem())
}

// MarshalJSON writes the short form if it is complete.
func (e Depend) MarshalJSON() ([]byte, error) {
	type long Depend
	if e.State == "succeeded" {
		return json.Marshal(e.Step)
	}
	return json.Marshal(long(e))
}

func (o *Output) fromNode(d *decoder, n *node) {
	if o.Type = "string"; n.kind == kindString {
		o.Name = n.text()
		return
	}
	d.fields(n, reflect.ValueOf(o).Elem())
}

// MarshalJSON writes the short form if it is complete.
func (o Output) MarshalJSON() ([]byte, error) {
	type long Output
	if o.Type == "string" {
		return json.Marshal(o.Name)
	}
	return json.Marshal(long(o))
}

func (s *Stdin) fromNode(d *decoder, n *node) {
	if n.kind == kindString {
		s.Text = n.text()
		return
	}
	d.fields(n, reflect.ValueOf(s).Elem())
}

// MarshalJSON writes the short form for a text.
func (s Stdin) MarshalJSON() ([]byte, error) {
	type long Stdin
	if s.Output == "" && s.File == "" {
		return json.Marshal(s.Text)
	}
	return json.Marshal(long(s))
}

func (s *Secret) fromNode(d *decoder, n *node) {
	if n.kind == kindString {
		s.Name = n.text()
		return
	}
	d.fields(n, reflect.ValueOf(s).Elem())
}

// MarshalJSON writes the name alone for a secret that the DAG declares.
func (s Secret) MarshalJSON() ([]byte, error) {
	type long Secret
	if s.From == "" {
		return json.Marshal(s.Name)
	}
	return json.Marshal(long(s))
}

func (s *StepSecrets) fromNode(d *decoder, n *node) {
	if n.kind == kindString {
		s.All = n.text() == allSecrets
		return
	}
	s.List = []Secret{}
	for item := range n.list() {
		var secret Secret
		secret.fromNode(d, item)
		s.List = append(s.List, secret)
	}
}

// MarshalJSON writes the word "all", or the list.
func (s StepSecrets) MarshalJSON() ([]byte, error) {
	if s.All {
		return json.Marshal(allSecrets)
	}
	return json.Marshal(s.List)
}

func (c *ContinueOn) fromNode(d *decoder, n *node) {
	switch n.text() {
	case "failed":
		c.Failure = true
	case "skipped":
		c.Skipped = true
	default:
		d.fields(n, reflect.ValueOf(c).Elem())
	}
}

// IsZero reports whether nothing is tolerated.
func (c ContinueOn) IsZero() bool {
	return !c.Failure && !c.Skipped && !c.MarkSuccess && len(c.ExitCode) == 0
}

func (p *Priority) fromNode(_ *decoder, n *node) {
	if i, ok := n.value.(int64); ok {
		p.Value = int(i)
		return
	}
	p.Expr = n.text()
}

// MarshalJSON writes the number or the expression.
func (p Priority) MarshalJSON() ([]byte, error) {
	if p.Expr != "" {
		return json.Marshal(p.Expr)
	}
	return json.Marshal(p.Value)
}

func (i *Items) fromNode(_ *decoder, n *node) {
	if n.kind == kindString {
		i.Ref = n.text()
		return
	}
	i.List, _ = n.plain().([]any)
}

// MarshalJSON writes the list or the reference.
func (i Items) MarshalJSON() ([]byte, error) {
	if i.Ref != "" {
		return json.Marshal(i.Ref)
	}
	return json.Marshal(i.List)
}
