package cli

import "strings"

const (
	tailMark  = "      │ "
	noteRoom  = 44 // columns that are kept for the text behind the name of a task
	leastName = 20
)

// fold breaks a line that is too long. On a page that is drawn again and again it cuts the line instead, so that each task
// keeps one line.
func (p *runPage) fold(line string, under int) string {
	if p.live && p.columns > 0 {
		return cut(line, p.columns)
	}
	return fold(line, p.columns, under)
}

// factLines returns the facts as lines; a long value is folded.
func (p *runPage) factLines() string {
	facts := p.facts()
	under := 0
	for _, fact := range facts {
		under = max(under, width(fact[0])+columnGap)
	}
	lines := splitLines(alignRows(facts))
	for i := range lines {
		lines[i] = p.fold(lines[i], under)
	}
	return strings.Join(lines, "\n") + "\n"
}

// alignTasks aligns the columns of tasks. If there is little room, a name that is longer than others shifts only its own
// line to the right.
func (p *runPage) alignTasks(rows [][]string) []string {
	widths := make([]int, 4)
	room := 0
	if p.columns > 0 {
		room = max(p.columns-noteRoom, leastName)
	}
	for _, row := range rows {
		for i, cell := range row {
			if w := width(cell); i > 0 || room == 0 || w <= room {
				widths[i] = max(widths[i], w)
			}
		}
	}
	note := widths[0] + widths[1] + widths[2] + 3*columnGap
	lines := make([]string, len(rows))
	for i, row := range rows {
		lines[i] = p.fold(strings.TrimRight(alignRow(row, widths), " "), note)
	}
	return lines
}
