package dagrun

import "iter"

// Run is one drive of one generation of a run.
type Run struct {
	graph *Graph
}

func New(g *Graph, o Options) *Run                       { panic("being written") }
func Restore(g *Graph, o Options, s Saved) (*Run, error) { panic("being written") }
func (r *Run) Step(e Event) error                        { panic("being written") }
func (r *Run) Ready() (Ready, bool)                      { panic("being written") }
func (r *Run) Advance()                                  { panic("being written") }
func (r *Run) Over() bool                                { panic("being written") }
func (r *Run) Explain(id TaskID) string                  { panic("being written") }
func (r *Run) Reason() string                            { panic("being written") }
func (r *Run) Task(id TaskID) (TaskRecord, bool)         { panic("being written") }
func (r *Run) Tasks() iter.Seq[TaskRecord]               { panic("being written") }
func (r *Run) Spec(id TaskID) *Step                      { panic("being written") }
func (r *Run) Scope(id TaskID) Scope                     { panic("being written") }
func (r *Run) Item(id TaskID) (Item, bool)               { panic("being written") }
