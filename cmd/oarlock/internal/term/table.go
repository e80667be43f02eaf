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

// AlignRows writes one line a row, with cells of a column below each other.
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

// AlignRow writes a row with columns of these widths, or wider.
func AlignRow(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", max(0, widths[i]-Width(cell))+ColumnGap))
	}
	return b.String()
}
