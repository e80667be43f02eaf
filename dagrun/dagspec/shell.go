package dagspec

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// standardFlag is what most programs want before a script: all shells, Python, psql.
const standardFlag = "-c"

// scriptFlags are those of interpreters for which -c means something else. The first is the one to propose.
var scriptFlags = map[string][]string{
	"node": {"-e", "--eval", "-p", "--print"}, "nodejs": {"-e", "--eval", "-p", "--print"}, "bun": {"-e", "--eval", "-p", "--print"},
	"ruby": {"-e"}, "perl": {"-e", "-E"}, "php": {"-r", "--run"}, "lua": {"-e"}, "Rscript": {"-e"}, "elixir": {"-e", "--eval"},
	"osascript": {"-e"}, "groovy": {"-e"}, "pwsh": {"-Command", "-c"}, "powershell": {"-Command", "-c"},
}

// cluster is one of several letters that ends with the flag, as in bash -ec or python3 -Ic.
var cluster = regexp.MustCompile(`^-[A-Za-z]+c$`)

// ShellCommand is what a shell of `shell:` is started with: all but the flag before a script, and that flag. The last element
// may be that flag; where it is not, -c is meant.
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

// isPOSIX says whether letters behind one dash are flags of their own: in shells and Python.
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

// CheckShell says what is wrong with a shell, and what to write instead; "" for nothing.
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
