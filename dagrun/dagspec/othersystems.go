package dagspec

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	asSchedule = `write schedule: "0 2 * * *", or schedule: {cron: "0 2 * * *", timezone: Europe/Paris}`
	asProcess  = "a step is a process on the worker: to start a container, write run: docker run …"
	noDeadline = "a schedule has no limit for when its runs must end: timeout: of the DAG ends a run that takes too long"
	perItem    = "a step runs once for each item of its foreach:"
	noRepeat   = "a step that succeeded does not run again in its run: retry_policy repeats failures, action: wait asks an address of http: until it answers, and schedule: {every: 5m} repeats runs"
)

// foreign lists keys of other systems that match no single key here, with the hint for a DAG and for a step.
var foreign = map[string]struct{ dag, step string }{
	"api_version":     {"remove this key: a DAG file has no version of its format", ""},
	"kind":            {"remove this key: each file is a DAG", ""},
	"metadata":        {"write name:, description: and labels: without this key", ""},
	"spec":            {"write the keys of the DAG without this key: steps:, params:, …", ""},
	"on":              {asSchedule + "; for any other event ask for a run, with oarlock.enqueue in SQL or with `oarlock enqueue`", ""},
	"cron":            {asSchedule, ""},
	"container":       {asProcess, asProcess},
	"image":           {asProcess, asProcess},
	"services":        {asProcess, asProcess},
	"strategy":        {perItem, perItem},
	"matrix":          {perItem, "use foreach instead of this key"},
	"expected_within": {noDeadline, ""},
	"concurrency":     {"", "foreach: {max_concurrent: …} limits items; concurrency: of the DAG limits its runs by a key, max_active_steps: limits the tasks of a run"},
	"repeat":          {noRepeat, noRepeat},
	"repeat_policy":   {noRepeat, noRepeat},
	"environment":     {"", "variables go into env: {NAME: value}; a step with action: approval, on which this one depends, waits for a person"},
	"runs_on":         {"worker_selector: picks workers by their labels", "worker_selector: of the DAG picks workers by their labels"},
	"node_selector":   {"worker_selector: picks workers by their labels", "worker_selector: of the DAG picks workers by their labels"},
}

// foreignInSchedule lists such keys of a schedule.
var foreignInSchedule = map[string]string{
	"stop":            "a run ends by itself: timeout: of the DAG limits the time of a run",
	"restart":         "write {cron: …, overlap_policy: cancel}: this policy ends the run before, and starts another run",
	"suspend":         "write enabled: false",
	"expected_within": noDeadline,
}

// ofSchedule lists keys of a schedule that other systems have in the DAG.
var ofSchedule = []string{
	"timezone", "start", "end", "except", "jitter", "overlap_policy", "at_once", "pause_on_failure",
	"catchup", "catchup_window", "catchup_max",
}

// foreignHint returns the hint for a key of another system. snake is the key in snake case, and known are the keys that are valid
// in its place: they tell whether that is a DAG, a step or a schedule. It returns "" if it knows nothing about the key there.
func foreignHint(snake string, known []string) string {
	here := cmp.Or(elsewhere[snake], snake)
	switch at := foreign[snake]; {
	case slices.Contains(known, "steps") && (here == "every" || here == "at"):
		return fmt.Sprintf("write schedule: {%s: …}", here)
	case slices.Contains(known, "steps") && at.dag == "" && slices.Contains(ofSchedule, here):
		return fmt.Sprintf("this key belongs to a schedule: {cron: …, %s: …}", here)
	case slices.Contains(known, "steps"):
		return at.dag
	case slices.Contains(known, "cron"):
		return foreignInSchedule[snake]
	case slices.Contains(known, "run"):
		return at.step
	}
	return ""
}

// paramsHint returns the params of another system, which are a map, a text such as "DIR=/tmp N=3", or one such word in a list, in
// the form that params have here. If the value has none of these forms, the params of the hint are an example.
func paramsHint(n *node) string {
	const most = 3
	var list []string
	add := func(name, value string) {
		if name = strings.ToLower(name); paramName.MatchString(name) && len(list) < most {
			list = append(list, fmt.Sprintf("{name: %s, default: %s}", name, flowWord(value)))
		}
	}
	for key, v := range n.fields() {
		if v.kind != kindList && v.kind != kindMap {
			add(key.text(), fmt.Sprint(v.written()))
		}
	}
	words, _ := shellWords(n.text())
	for _, word := range words {
		if name, value, ok := strings.Cut(word, "="); ok {
			add(name, value)
		}
	}
	if list == nil {
		list = []string{"{name: day, default: '2026-03-01'}"}
	}
	return "write a list of maps: params: [" + strings.Join(list, ", ") + "]"
}

var paramName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// brackets matches references of other systems in ${{ … }}.
var brackets = regexp.MustCompile(`\$\{\{[^}\n]*(?:\}\}?)?`)

// noBrackets reports each ${{ … }} in a shell script, because no shell accepts it. Text in single quotes may hold it, and so may
// scripts with a here document. A script with a shell of its own is not checked, because that may be another interpreter.
func (c *checker) noBrackets(n *node, shell []string) {
	if n == nil || len(shell) > 0 || strings.Contains(n.text(), "<<") {
		return
	}
	for _, part := range brackets.FindAllString(unquoted(n.text()), -1) {
		c.problem(n, problem{part, part + " is the syntax of another system", `in run: a param is "$PARAM_NAME"; for any other value write a reference in env:, such as env: {ROWS: "${steps.a.outputs.rows}"}, and use "$ROWS" in the script`})
	}
}

// unquoted returns a shell script without its comments and without the text between single quotes.
func unquoted(script string) string {
	var b strings.Builder
	quote, before := rune(0), '\n'
	comment := false
	for _, r := range script {
		comment = r != '\n' && (comment || r == '#' && quote == 0 && strings.ContainsRune(" \t\n", before))
		before = r
		switch {
		case comment:
			continue
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
		case quote == '\'':
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// commandHint returns a hint for a command that is a whole command line: write run:, or, if the line needs no shell, the same line
// as command: and args:.
func commandHint(line string) string {
	const asShell = "for a shell command write run:"
	words, ok := shellWords(line)
	if !ok {
		return asShell
	}
	return fmt.Sprintf("%s; without a shell write command: %s with args: %s", asShell, flowWord(words[0]), flowList(words[1:]))
}

// shellWords splits a command line into words, as a shell does, and removes quotes. It returns false if the line has no words or an
// open quote, or uses a feature that only a shell has.
func shellWords(line string) (words []string, ok bool) {
	var word strings.Builder
	begun := false
	quote := rune(0)
	for _, r := range line {
		switch {
		case r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && strings.ContainsRune("|&;<>()`*?[]{}~#!\\", r), quote != '\'' && (r == '$' || r == '\\' || r == '`'):
			return nil, false
		case quote == 0 && strings.ContainsRune(" \t\n", r):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words, quote == 0 && len(words) > 0
}

// flowList formats words as a YAML list in brackets.
func flowList(words []string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = flowWord(w)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

var plainWord = regexp.MustCompile(`^[A-Za-z./_=+-][A-Za-z0-9./_=+@%-]*$`)

// flowWord formats a text for a YAML list in brackets. It quotes any text that YAML might not read as that text.
func flowWord(word string) string {
	reserved := []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n", "-"}
	if plainWord.MatchString(word) && !slices.Contains(reserved, strings.ToLower(word)) {
		return word
	}
	return fmt.Sprintf("%q", word)
}
