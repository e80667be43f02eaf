package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// show prints a result: what each side did, what that cost the server, and what became of the goals.
func show(w io.Writer, r *Result) {
	fmt.Fprintf(w, "\n%s: %s\n", r.Case, r.About)
	fmt.Fprintf(w, "  %d rounds, %s; median (min … max)\n", r.Rounds, took(r.Took))
	if r.Scale < 1 {
		fmt.Fprintf(w, "  %s of the work: not for figures\n", short(r.Scale))
	}
	for _, setting := range r.Settings {
		fmt.Fprintf(w, "  %s\n", setting)
	}
	fmt.Fprintf(w, "  %s\n", r.Machine)
	for _, side := range r.Sides {
		fmt.Fprintf(w, "  %-32s%s\n", side, figuresOf(r.Figures[side], false))
		if per := figuresOf(r.Figures[side], true); per != "" {
			fmt.Fprintf(w, "  %-32s%s\n", "", per)
		}
	}
	for _, line := range r.Lines {
		fmt.Fprintf(w, "  %s %s\n", line.mark(), line)
	}
}

// figuresOf lists figures of a side: what it did, or what the server counted.
func figuresOf(figures map[string]Figure, counted bool) string {
	var all []string
	for _, metric := range slices.Sorted(maps.Keys(figures)) {
		switch f := figures[metric]; {
		case isCount(metric) != counted:
		case counted:
			all = append(all, fmt.Sprintf("%s %s", short(f.Median), strings.TrimSuffix(metric, " per unit")))
		default:
			all = append(all, fmt.Sprintf("%s %s", f, metric))
		}
	}
	if counted && len(all) > 0 {
		return "per unit: " + strings.Join(all, ", ")
	}
	return strings.Join(all, "   ")
}

// String is the middle, and how far it goes to either side.
func (f Figure) String() string {
	if f.Min == f.Max {
		return short(f.Median)
	}
	return fmt.Sprintf("%s (%s … %s)", short(f.Median), short(f.Min), short(f.Max))
}

func (l Line) String() string {
	text := fmt.Sprintf("%s  %s", l.What, l.Figure)
	if l.Wanted != "" {
		text += ", wanted " + l.Wanted
	}
	return text
}

// answer says whether a goal is reached; "" where there is none.
func (l Line) answer() string {
	if l.Reached == nil {
		return ""
	}
	return map[bool]string{true: "yes", false: "no"}[*l.Reached]
}

// mark says the same at a glance.
func (l Line) mark() string {
	return map[string]string{"": "·", "yes": "✓", "no": "✗"}[l.answer()]
}

// String is what a figure must not be read without.
func (m Machine) String() string {
	return fmt.Sprintf("%d × %s, %s, Linux %s, load %s; %s; %s; %s; %s", m.Cores, m.CPU, m.Memory, m.Kernel, m.Load, m.Go, m.Oarlock,
		strings.Join(m.Modules, ", "), strings.Join(m.Postgres, " "))
}
