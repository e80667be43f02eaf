package dagspec

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// standardFlag is the flag that most programs take before a script: all shells, Python, psql.
const standardFlag = "-c"

// scriptFlags lists the flags of interpreters for which -c means something else. The first flag is the one to propose.
var scriptFlags = map[string][]string{
	"node": {"-e", "--eval", "-p", "--print"}, "nodejs": {"-e", "--eval", "-p", "--print"}, "bun": {"-e", "--eval", "-p", "--print"},
	"ruby": {"-e"}, "perl": {"-e", "-E"}, "php": {"-r", "--run"}, "lua": {"-e"}, "Rscript": {"-e"}, "elixir": {"-e", "--eval"},
	"osascript": {"-e"}, "groovy": {"-e"}, "pwsh": {"-Command", "-c"}, "powershell": {"-Command", "-c"},
}

// cluster matches several one-letter flags in one word that ends with c, as in bash -ec or python3 -Ic.
var cluster = regexp.MustCompile(`^-[A-Za-z]+c$`)

// ShellCommand splits a shell of `shell:` into the program with its arguments and the flag before a script. The flag is the
// last element if that is such a flag, and -c otherwise. A word like -ec is split into -e and -c.
func ShellCommand(shell []string) (program []string, flag string) {
	if len(shell) < 2 {
		return shell, standardFlag
	}
	before, last := shell[:len(shell)-1], shell[len(shell)-1]
	if last == standardFlag || last == "--command" {
		return before, last
	}
	for _, word := range before {
		if flags, ok := scriptFlags[path.Base(word)]; ok {
			if slices.Contains(flags, last) {
				return before, last
			}
			return shell, standardFlag
		}
	}
	if cluster.MatchString(last) && isPOSIX(before) {
		return append(slices.Clone(before), strings.TrimSuffix(last, "c")), standardFlag
	}
	return shell, standardFlag
}

// isPOSIX reports whether letters behind one dash are separate flags, as in shells and Python.
func isPOSIX(words []string) bool {
	for _, word := range words {
		base := strings.TrimRight(path.Base(word), "0123456789.")
		if base == "python" || base == "pypy" || base == "fish" || strings.HasSuffix(base, "sh") {
			return true
		}
	}
	return false
}

// shell refuses an interpreter that would not run the script.
func (c *checker) shell(n *node) {
	var words []string
	for item := range n.list() {
		c.noReferences(item)
		words = append(words, item.text())
	}
	if msg, hint := CheckShell(words); msg != "" {
		c.add(n.pos(), hint, "%s", msg)
	}
}

// CheckShell returns what is wrong with a shell and what to write instead, or "" for a good shell.
func CheckShell(shell []string) (msg, hint string) {
	if len(shell) == 0 {
		return "", ""
	}
	name := path.Base(shell[0])
	flags, ok := scriptFlags[name]
	program, flag := ShellCommand(shell)
	if !ok || slices.Contains(flags, flag) {
		return "", ""
	}
	return name + " does not run a script that follows -c", "write [" + strings.Join(append(slices.Clone(program), flags[0]), ", ") + "]"
}
