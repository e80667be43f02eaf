package term

import (
	"strings"
)

// Table aligns its columns. Its cells may have colours.
type Table struct {
	Head []string
	Rows [][]string
}

// ColumnGap is how many columns stand between two columns of a table.
const ColumnGap = 2

func (t Table) String() string { return AlignRows(append([][]string{t.Head}, t.Rows...)) }

// AlignRows returns one line for each row, with each column as wide as its widest cell. It cuts blanks at the ends of lines. Rows
// may have different numbers of cells, and cells may have colours.
func AlignRows(all [][]string) string {
	var widths []int
	for _, row := range all {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Width(cell))
		}
	}
	var b strings.Builder
	for _, row := range all {
		b.WriteString(strings.TrimRight(AlignRow(row, widths), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// AlignRow returns the cells of a row side by side: cell i is padded with blanks to widths[i] columns, and ColumnGap blanks follow
// each cell, the last one too. A cell that is wider than its column is not cut. widths must have an entry for each cell.
func AlignRow(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", max(0, widths[i]-Width(cell))+ColumnGap))
	}
	return b.String()
}
