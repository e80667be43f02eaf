package main

import (
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

//go:embed report.html.tmpl
var reportPage string

// report prints a table of what a folder holds, as docs/performance.md shows it, and writes it as a page.
func report(dir string, w io.Writer) error {
	all, err := loadAll(dir)
	if err != nil {
		return err
	}
	markdown(w, all)
	page, err := template.New("report").Funcs(template.FuncMap{"short": short, "bars": bars, "took": took, "counts": countsOf, "answer": Line.answer}).Parse(reportPage)
	if err != nil {
		return fmt.Errorf("read the page's template: %w", err)
	}
	file, err := os.Create(filepath.Join(dir, "report.html")) //nolint:gosec // where somebody wants it
	if err != nil {
		return err
	}
	if err := page.Execute(file, all); err != nil {
		_ = file.Close()
		return fmt.Errorf("write the page: %w", err)
	}
	return file.Close()
}

// markdown has a row per goal, then one per side.
func markdown(w io.Writer, all []*Result) {
	fmt.Fprint(w, "| case | what | median (min … max) | wanted | reached |\n|---|---|---|---|---|\n")
	for _, r := range all {
		for _, l := range r.Lines {
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", r.Case, l.What, l.Figure, orElse(l.Wanted, "–"), orElse(l.answer(), "–"))
		}
	}
	fmt.Fprint(w, "\n| case | side | figures | statements | rows | buffers | WAL bytes | µs of the server | µs of the process |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range all {
		for _, side := range r.Sides {
			fmt.Fprintf(w, "| %s | %s | %s |", r.Case, side, figuresOf(r.Figures[side], false))
			for _, count := range counts[:6] {
				fmt.Fprintf(w, " %s |", countOf(r.Figures[side], count))
			}
			fmt.Fprintln(w)
		}
	}
	for _, r := range all {
		fmt.Fprintf(w, "\n%s: %d rounds, %s UTC, %s\n", r.Case, r.Rounds, r.At.Format("2006-01-02 15:04"), r.Machine)
	}
}

func countOf(figures map[string]Figure, count string) string {
	if f, ok := figures[count]; ok {
		return short(f.Median)
	}
	return "–"
}

func countsOf(r *Result, side string) (texts []string) {
	for _, count := range counts[:6] {
		texts = append(texts, countOf(r.Figures[side], count))
	}
	return texts
}

// Bar is a side's figure in a chart: its middle as a bar, its extremes as a line, in parts of a hundred of the largest.
type Bar struct {
	Side, Text      string
	Y               int
	Middle, Low, Up float64
}

// Chart compares the sides of a case by one metric.
type Chart struct {
	Metric string
	Height int
	Bars   []Bar
}

const barHeight = 26

// bars draws the metrics that more than one side has.
func bars(r *Result) (charts []Chart) {
	metrics := map[string]int{}
	for _, figures := range r.Figures {
		for metric := range figures {
			if !isCount(metric) {
				metrics[metric]++
			}
		}
	}
	for _, metric := range slices.Sorted(maps.Keys(metrics)) {
		if metrics[metric] > 1 {
			charts = append(charts, chart(r, metric))
		}
	}
	return charts
}

func chart(r *Result, metric string) Chart {
	c := Chart{Metric: metric}
	most := 0.0
	for _, figures := range r.Figures {
		most = max(most, figures[metric].Max)
	}
	for _, side := range r.Sides {
		f, ok := r.Figures[side][metric]
		if !ok || most == 0 {
			continue
		}
		c.Bars = append(c.Bars, Bar{
			Side: side, Text: f.String(), Y: c.Height, Middle: 100 * f.Median / most, Low: 100 * f.Min / most, Up: 100 * f.Max / most,
		})
		c.Height += barHeight
	}
	return c
}
