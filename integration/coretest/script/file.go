package script

import (
	"fmt"
	"strings"
)

const dashes = "----"

// block is one command of a script with what it should print.
type block struct {
	comment string // includes the empty lines before the command
	command string
	input   []string
	want    string
	line    int
}

// parseFile cuts a script into blocks. The string is the unchanged text after the last block.
func parseFile(text string) ([]block, string, error) {
	lines := strings.SplitAfter(text, "\n")
	var blocks []block
	for at := 0; ; {
		b, next, err := parseBlock(lines, at)
		if err != nil {
			return nil, "", err
		}
		if b.command == "" {
			return blocks, b.comment, nil
		}
		blocks, at = append(blocks, b), next
	}
}

func parseBlock(lines []string, at int) (block, int, error) {
	var b block
	for ; at < len(lines) && isComment(lines[at]); at++ {
		b.comment += lines[at]
	}
	if at == len(lines) {
		return b, at, nil
	}
	b.command, b.line = strings.TrimSpace(lines[at]), at+1
	for at++; ; at++ {
		if at == len(lines) {
			return b, at, fmt.Errorf("line %d: %q has no %s line", b.line, b.command, dashes)
		}
		line := strings.TrimSpace(lines[at])
		if line == dashes {
			break
		}
		b.input = append(b.input, line)
	}
	for at++; at < len(lines) && strings.TrimSpace(lines[at]) != ""; at++ {
		b.want += lines[at]
	}
	return b, at, nil
}

func isComment(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || strings.HasPrefix(line, "#")
}

// print writes a block as text, with other output.
func (b block) print(got string) string {
	var s strings.Builder
	s.WriteString(b.comment + b.command + "\n")
	for _, line := range b.input {
		s.WriteString(line + "\n")
	}
	s.WriteString(dashes + "\n" + got)
	return s.String()
}
