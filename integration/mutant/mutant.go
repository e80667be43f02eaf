package mutant

import (
	"errors"
	"fmt"
	"strings"
)

// Mutant is a fault to plant.
type Mutant struct {
	Name string
	Why  string // what goes wrong, in a sentence
	File string
	Old  string // stands in File exactly once
	New  string
	By   []Suite // suites that must notice; empty: the suites of the list
}

// Parse reads a list of mutants. Paragraphs that start with # are comments.
func Parse(text string) ([]Mutant, error) {
	var list []Mutant
	names := map[string]bool{}
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		lines := strings.Split(strings.Trim(paragraph, "\n"), "\n")
		if strings.HasPrefix(lines[0], "#") || lines[0] == "" {
			continue
		}
		m, err := parseOne(lines)
		if err == nil && names[m.Name] {
			err = errors.New("the name is taken")
		}
		if err != nil {
			return nil, fmt.Errorf("mutant %q: %w", lines[0], err)
		}
		names[m.Name] = true
		list = append(list, m)
	}
	return list, nil
}

func parseOne(lines []string) (Mutant, error) {
	if len(lines) < 4 {
		return Mutant{}, errors.New("needs a name, a sentence, a file and what stands there (-)")
	}
	m := Mutant{Name: lines[0], Why: lines[1], File: lines[2]}
	var before, after []string
	for _, line := range lines[3:] {
		mark, code, _ := strings.Cut(line, " ")
		switch {
		case mark == "?" && before == nil:
			words := strings.Fields(code)
			if len(words) == 0 {
				return m, errors.New("asks nobody: name a package after ?")
			}
			m.By = append(m.By, Suite{Package: words[0], Args: words[1:]})
		case mark == "-" && after == nil:
			before = append(before, code)
		case mark == "+":
			after = append(after, code)
		default:
			return m, fmt.Errorf("line %q: write what stands there (- ) and then what takes its place (+ )", line)
		}
	}
	m.Old, m.New = snippet(before), snippet(after)
	if m.Old == "" || m.Old == m.New {
		return m, errors.New("changes nothing")
	}
	return m, nil
}

func snippet(lines []string) string { return strings.TrimLeft(strings.Join(lines, "\n"), "\t ") }

// Apply plants the fault in the text of its file.
func (m *Mutant) Apply(source string) (string, error) {
	if n := strings.Count(source, m.Old); n != 1 {
		return "", fmt.Errorf("mutant %q: its snippet is %d times in %s, not once: bring it in line with the code", m.Name, n, m.File)
	}
	return strings.Replace(source, m.Old, m.New, 1), nil
}
