package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Case is one kind of work that is measured.
type Case struct {
	Name     string
	About    string // the work, in a sentence
	Bound    string // the limit of the work, for the report
	Settings []string
	Once     bool    // its rounds are long, so it runs only one
	Quick    float64 // share of the work that a quick run does, besides the scale of all cases; 0: 1
	Prepare  func(ctx context.Context, s *Stage) ([]Side, error)
	Goals    []Goal
}

// Side is one way to do the work of a case. Sides take turns.
type Side struct {
	Name  string
	Count *Database // database with the statements to count; nil: nothing is counted
	Round func(ctx context.Context) (Sample, error)
}

// Sample is the result of one round of a side.
type Sample struct {
	Units  float64 // how many units of work the round did, for counts per unit
	Values Values
}

// Values are figures by name. A name ends in the unit of the figure.
type Values map[string]float64

// Goal is a bound on a figure of one side, or on its ratio to a figure of another side in the same round.
type Goal struct {
	Side    string
	Metric  string
	Of      string  // the other side; "": the bound is on the figure itself
	OfOther string  // the other side's metric; "": the same metric
	AtLeast float64 // at most one of AtLeast and AtMost is set; neither: the figure is only reported
	AtMost  float64
	Guarded bool    // `make bench-quick` compares it with the committed ratio
	Slack   float64 // how much worse than the committed ratio it may be; 0: defaultSlack
}

// String names the goal; the name is the key of committed ratios.
func (g Goal) String() string {
	if g.Of == "" {
		return fmt.Sprintf("%s: %s", g.Side, g.Metric)
	}
	what := g.Metric
	if g.OfOther != "" && g.OfOther != g.Metric {
		what += " to " + g.OfOther
	}
	return fmt.Sprintf("%s / %s: %s", g.Side, g.Of, what)
}

// wanted returns the bound as people read it, such as "≤ 1.3", or "" if the goal has no bound.
func (g Goal) wanted() string {
	switch {
	case g.AtLeast > 0:
		return "≥ " + short(g.AtLeast)
	case g.AtMost > 0:
		return "≤ " + short(g.AtMost)
	}
	return ""
}

// bounded reports whether the goal has a bound.
func (g Goal) bounded() bool { return g.AtLeast > 0 || g.AtMost > 0 }

// reached reports whether v keeps the bound. It is true for a goal without a bound.
func (g Goal) reached(v float64) bool {
	if g.AtLeast > 0 {
		return v >= g.AtLeast
	}
	return !g.bounded() || v <= g.AtMost
}

// guarded returns a copy of the case with only the goals that a quick run compares, and with only the sides that these goals name.
// It reports whether any goal is left.
func (c Case) guarded() (Case, bool) {
	c.Goals = slices.DeleteFunc(slices.Clone(c.Goals), func(g Goal) bool { return !g.Guarded })
	prepare := c.Prepare
	c.Prepare = func(ctx context.Context, s *Stage) ([]Side, error) {
		sides, err := prepare(ctx, s)
		return slices.DeleteFunc(sides, func(side Side) bool { return !c.compares(side.Name) }), err
	}
	return c, len(c.Goals) > 0
}

func (c Case) compares(side string) bool {
	return slices.ContainsFunc(c.Goals, func(g Goal) bool { return g.Side == side || g.Of == side })
}

// cases returns all cases, in the order of the documentation.
func cases() []Case {
	return []Case{
		chainCase(), singleCase(), aloneCase(), startCase(), commandCase(),
		logsCase(), backlogCase(), idleCase(), soakCase(), shareCase(), slowdiskCase(), schedulesCase(),
	}
}

// chosen returns the cases with these names, in the order of cases; without names, all cases. It returns an error for a name that
// no case has.
func chosen(names []string) ([]Case, error) {
	all := cases()
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c Case) bool { return c.Name == name }) {
			return nil, fmt.Errorf("there is no case %q: name some of %s", name, strings.Join(caseNames(all), ", "))
		}
	}
	return slices.DeleteFunc(all, func(c Case) bool { return len(names) > 0 && !slices.Contains(names, c.Name) }), nil
}

func caseNames(all []Case) (names []string) {
	for i := range all {
		names = append(names, all[i].Name)
	}
	return names
}
