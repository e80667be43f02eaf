package dagspec

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"

	"github.com/oarlock-dev/oarlock/internal/spelling"
)

// Error is one problem of a file. Line and Column count from 1, and are 0 for a problem without a position.
type Error struct {
	Path   string
	Line   int
	Column int // in characters
	Msg    string
	Hint   string
	Source string // the line; of a very long line the part around the column, with … at each cut
	Caret  int    // index of the column in Source, in characters, from 0
}

// Errors is the list of all problems of a file, by position.
type Errors []Error

// maxErrors limits the number of problems that are reported for one file.
const maxErrors = 1000

// sourceWidth limits the length of Error.Source, in characters.
const sourceWidth = 160

// missing marks in Error.Source where the line was cut.
const missing = "…"

// Error formats the problem: position and message in the first line, then the source line with a caret below it, then the hint. It
// leaves out parts that are not known.
func (e Error) Error() string {
	var b strings.Builder
	if e.Path != "" {
		b.WriteString(e.Path + ":")
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", e.Line, e.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(e.Msg)
	if e.Line > 0 && strings.TrimSpace(e.Source) != "" {
		number := fmt.Sprint(e.Line)
		fmt.Fprintf(&b, "\n  %s | %s", number, e.Source)
		fmt.Fprintf(&b, "\n  %s | %s^", strings.Repeat(" ", len(number)), e.indent())
	}
	if e.Hint != "" {
		b.WriteString("\n  hint: " + e.Hint)
	}
	return b.String()
}

// indent returns the blanks in front of the caret. A tab stays a tab, so that the caret lines up at any tab width. A wide
// character takes two columns, and a combining mark none.
func (e Error) indent() string {
	var b strings.Builder
	for i, r := range []rune(e.Source) {
		if i >= e.Caret {
			break
		}
		b.WriteString(blank(r))
	}
	return b.String()
}

// blank returns the blanks that are as wide as a character on a terminal: two, one or none. For a tab it returns a tab.
func blank(r rune) string {
	switch {
	case r == '\t':
		return "\t"
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return ""
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return "  "
	}
	return " "
}

// Error formats all problems, with an empty line between them.
func (es Errors) Error() string {
	texts := make([]string, len(es))
	for i, e := range es {
		texts[i] = e.Error()
	}
	return strings.Join(texts, "\n\n")
}

// Unwrap implements the interface of joined errors, so that errors.As finds a single Error.
func (es Errors) Unwrap() []error {
	list := make([]error, len(es))
	for i, e := range es {
		list[i] = e
	}
	return list
}

// report collects the problems of one file.
type report struct {
	path  string
	lines []string
	list  Errors
	more  int
}

func newReport(path string, src []byte) *report {
	return &report{path: path, lines: splitLines(src)}
}

func splitLines(src []byte) []string {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(src), bom))
	return strings.Split(text, "\n")
}

// pos is a position in a file. The zero value is no position.
type pos struct{ line, col int }

// add adds a problem to the report. The hint may be "". After maxErrors problems it only counts further ones.
func (r *report) add(at pos, hint, format string, args ...any) {
	if r.full() {
		r.more++
		return
	}
	r.list = append(r.list, Error{Path: r.path, Line: at.line, Column: at.col, Msg: printable(fmt.Sprintf(format, args...)), Hint: printable(hint)})
}

// full reports whether the report has its maximum of problems: further problems are only counted.
func (r *report) full() bool { return len(r.list) >= maxErrors }

// printable replaces control characters except tabs, and bytes that are not UTF-8, so that text from a file cannot control the
// terminal that shows it.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// quote fills in Source and Caret of every problem in r.list, which must be sorted by position. It walks through the source only
// once, because a single line may be as long as the file.
func (r *report) quote() {
	line, col, offset := 0, 0, 0
	for i := range r.list {
		e := &r.list[i]
		if e.Line < 1 || e.Line > len(r.lines) {
			continue
		}
		if e.Line != line {
			line, col, offset = e.Line, 1, 0
		}
		text := r.lines[line-1]
		for ; col < e.Column && offset < len(text); col++ {
			_, n := utf8.DecodeRuneInString(text[offset:])
			offset += n
		}
		e.Source, e.Caret = window(text, offset)
	}
}

// window returns the part of a line to show around an offset in bytes, and the index of the offset in that part, in characters. A
// line of up to sourceWidth characters is shown whole. Control characters are replaced.
func window(line string, offset int) (string, int) {
	from, to := 0, len(line)
	if len(line) > utf8.UTFMax*sourceWidth || utf8.RuneCountInString(line) > sourceWidth {
		from = offset
		for n := sourceWidth / 2; n > 0 && from > 0; n-- {
			_, size := utf8.DecodeLastRuneInString(line[:from])
			from -= size
		}
		to = from
		for n := sourceWidth; n > 0 && to < len(line); n-- {
			_, size := utf8.DecodeRuneInString(line[to:])
			to += size
		}
	}
	before, after := printable(line[from:offset]), printable(line[offset:to])
	if from > 0 {
		before = missing + before
	}
	if to < len(line) {
		after += missing
	}
	return before + after, utf8.RuneCountInString(before)
}

// err returns nil if no problem was added. Otherwise it sorts the list of problems, removes duplicates, adds source lines, and
// returns the list as an Errors. Problems beyond maxErrors become one last entry that says how many they are.
func (r *report) err() error {
	if len(r.list) == 0 {
		return nil
	}
	slices.SortStableFunc(r.list, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Msg, b.Msg))
	})
	r.list = slices.Compact(r.list)
	r.quote()
	if r.more > 0 {
		r.list = append(r.list, Error{Path: r.path, Msg: fmt.Sprintf("and %d more problems: correct these first", r.more)})
	}
	return r.list
}

func (r *report) failed() bool { return len(r.list) > 0 }

// elsewhere maps keys of other tools to the keys here.
var elsewhere = map[string]string{
	"needs": "depends", "need": "depends", "requires": "depends", "depends_on": "depends", "dependencies": "depends", "after": "depends",
	"if": "when", "condition": "when", "precondition": "when", "preconditions": "when", "unless": "when",
	"tasks": "steps", "jobs": "steps", "nodes": "steps", "stages": "steps",
	"script": "run", "sh": "run", "bash": "run", "exec": "command", "cmd": "command", "arguments": "args",
	"uses": "action", "executor": "action", "type": "action", "config": "with",
	"retries": "retry_policy.limit", "max_attempts": "retry_policy.limit", "retry": "retry_policy", "attempts": "retry_policy.limit",
	"retry_delay": "retry_policy.interval", "delay": "interval", "interval_sec": "interval", "max_retries": "retry_policy.limit",
	"environment": "env", "variables": "env", "vars": "env", "parameters": "params", "inputs": "params", "arg": "args",
	"cwd": "working_dir", "dir": "working_dir", "workdir": "working_dir", "working_directory": "working_dir",
	"timeout_sec": "timeout", "timeout_seconds": "timeout", "execution_timeout": "timeout", "timeout_minutes": "timeout",
	"matrix": "foreach", "parallel": "foreach", "loop": "foreach", "with_items": "foreach", "map": "foreach", "for_each": "foreach",
	"concurrency": "max_concurrent", "group": "key", "max_parallel": "max_concurrent", "parallelism": "max_concurrent",
	"cron": "schedule", "on": "schedule", "schedule_interval": "schedule", "timetable": "schedule", "start_date": "start", "end_date": "end",
	"interval": "every", "tz": "timezone", "concurrency_policy": "overlap_policy", "max_active_runs": "at_once", "exclude": "except",
	"handlers": "handler_on", "on_failure": "handler_on.failure or on_error",
	"on_success": "handler_on.success", "on_exit": "handler_on.exit", "on_cancel": "handler_on.abort", "cancel": "abort",
	"allow_failure": "continue_on", "continue_on_error": "continue_on", "ignore_errors": "continue_on",
	"tags": "labels", "trigger": "trigger_rule", "approval": "action: approval", "output": "outputs", "secret": "secrets",
	"grace_period": "grace", "failed": "failure", "succeeded": "success", "finally": "exit", "always": "exit", "before": "init", "codes": "exit_code", "exit_codes": "exit_code", "max_active_tasks": "max_active_steps", "title": "name",
}

var atTop = []string{"params", "secrets", "schedule", "handler_on", "max_active_steps", "steps", "defaults", "fail_fast", "queue"}

// unknownKeyHint returns a hint for the key name, which is not among the known keys of its place. It looks for the key among, in
// this order, other spellings of known keys, keys of other tools, similar keys, and keys of other places in the file. If nothing
// fits, it lists the known keys, or says which command does.
func unknownKeyHint(name string, known []string) string {
	if name == "secret" && slices.Contains(known, "default") {
		return "a run stores its params: use secrets: for values that a run must not store"
	}
	snake := snakeCase(name)
	if slices.Contains(known, snake) {
		return "write " + snake
	}
	if hint := foreignHint(snake, known); hint != "" {
		return hint
	}
	here, _, _ := strings.Cut(elsewhere[snake], ".")
	here, _, _ = strings.Cut(here, ":")
	if slices.Contains(known, here) {
		return "use " + elsewhere[snake] + " instead of this key"
	}
	if hint, ok := nearest(name, known); ok {
		return hint
	}
	switch {
	case slices.Contains([]string{"on", "off", "yes", "no", "y", "n"}, name):
		return "some YAML readers take this word for a boolean; no key has this name"
	case slices.Contains(known, "depends") && slices.Contains(atTop, snake):
		return snake + " belongs to the DAG, not to a step"
	case slices.Contains([]string{"id", "depends", "trigger_rule", "foreach", "precomputable"}, snake) && slices.Contains(known, "run"):
		return "only steps have " + snake
	case slices.Contains(known, "steps") && slices.Contains([]string{"timeout", "retry_policy", "pool", "kill"}, snake):
		return "put this key into defaults: or into a step"
	}
	if len(known) > 13 {
		return "oarlock dag schema lists the keys"
	}
	return "known here: " + strings.Join(known, ", ")
}

// snakeCase turns maxActive and max-active into max_active.
func snakeCase(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		if r == '-' {
			r = '_'
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// DidYouMean returns "did you mean NAME?" with the name in known that is most similar to word, or "" if none is similar.
func DidYouMean(word string, known []string) string {
	hint, _ := nearest(word, known)
	return hint
}

// nearest returns "did you mean NAME?" with the name in known that is most similar to word, regardless of case. It returns false if
// none is similar: about a third of the letters may differ.
func nearest(word string, known []string) (string, bool) {
	best, name := 1+max(1, len(word)/3), ""
	for _, k := range known {
		if d := spelling.Distance(strings.ToLower(word), strings.ToLower(k)); d < min(best, max(len(word), len(k))) {
			best, name = d, k
		}
	}
	if name == "" || word == "" {
		return "", false
	}
	return "did you mean " + name + "?", true
}

var yaml11 = map[string]string{"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}

// mismatchHint returns a hint for a value that is not of the wanted types, or "". key is the key of the value, and title the
// schema's words for a right value.
func mismatchHint(n *node, key, title string, want []string) string {
	scalar := n.kind != kindList && n.kind != kindMap
	span, spelled := spelledOut(n.text())
	number, _ := n.value.(int64)
	switch {
	case strings.HasPrefix(title, poolTitle) && strings.Contains(n.text(), "${"):
		return "a name has no references: put them into the key, as in {name: crm, key: '${params.tenant}'}"
	case strings.Contains(n.text(), "${") && strings.Contains(title, "${"):
		return "write the reference without other text around it"
	case strings.Contains(n.text(), "${"):
		return "write the value itself: no param and no other reference can stand here"
	case key == "params":
		return paramsHint(n)
	case key == "env" && (n.kind == kindList || n.kind == kindString):
		return "write a map: env: {NAME: value}"
	case key == "schedule":
		return `write schedule: "0 2 * * *"`
	case key == "concurrency":
		return "write concurrency: {limit: 3}, or with a key: {key: '${params.NAME}', limit: 3}"
	case key == "start" && n.kind == kindList:
		return startIsNoCron
	case strings.Contains(title, "duration") && n.kind == kindInt:
		return fmt.Sprintf("write a unit after the number: %vs, %vm, …", n.value, n.value)
	case strings.Contains(title, "duration") && spelled:
		return "write " + span
	case slices.Contains(want, "boolean") && yaml11[strings.ToLower(n.text())] != "":
		return "write " + yaml11[strings.ToLower(n.text())] + ": only true and false are booleans"
	case slices.Contains(want, "array") && scalar && key != "steps":
		return fmt.Sprintf("write %s: %s", key, flowList([]string{fmt.Sprint(n.value)}))
	case key == "args" && n.get("append") != nil:
		return "args: {append: […]} works only in a replacement, under with: of on_error: write the list"
	case slices.Equal(want, []string{"array"}) && n.kind == kindMap:
		return "begin each entry with a dash"
	case slices.Contains(want, "string") && (n.kind == kindBool || n.kind == kindFloat || n.kind == kindInt):
		return fmt.Sprintf("quote it: %q", fmt.Sprint(n.written()))
	case n.kind == kindString && slices.Contains(want, "integer") && strings.Trim(n.text(), "0123456789") == "":
		return "remove the quotes"
	case key == "working_dir":
		return "write a path"
	case key == "weight" && number < 1 && n.kind == kindInt:
		return "leave the pool out if the body needs nothing of it"
	}
	return ""
}

func missingHint(name, title string) string {
	switch {
	case name == "steps":
		return "add steps:, a list of at least one step"
	case strings.Contains(title, ": {"):
		_, form, _ := strings.Cut(title, ": ")
		return "write " + form
	}
	return "add " + name + ":"
}

func emptyHint(title string) string {
	if title == "" || title == "empty" {
		return "remove it"
	}
	return "give it " + title + ", or remove it"
}

func subject(key string) string {
	if key == "" {
		return "the DAG"
	}
	return key
}

func words(values []any) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = fmt.Sprint(v)
	}
	return list
}

// oneOf joins words as alternatives: "a, b or c".
func oneOf(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
	return strings.Join(words, "")
}

// noun returns words for people for some types of the schema, as in "a list or a map".
func noun(types []string) string {
	names := map[string]string{
		"array": "a list", "object": "a map", "string": "a text", "integer": "a whole number",
		"number": "a number", "boolean": "true or false", "null": "nothing",
	}
	list := make([]string, len(types))
	for i, t := range types {
		list[i] = names[t]
	}
	return oneOf(list)
}

// show formats the node for an error message: a text in quotes and at most 40 characters of it, "a list", "a map" or "nothing", and
// any other value as it is written in the file.
func (n *node) show() string {
	switch n.kind {
	case kindNull:
		return "nothing"
	case kindList:
		return "a list"
	case kindMap:
		return "a map"
	case kindString:
		text := []rune(n.text())
		if len(text) > 40 {
			return fmt.Sprintf("%q…", string(text[:40]))
		}
		return fmt.Sprintf("%q", n.text())
	}
	return fmt.Sprint(n.written())
}

// written returns a number as the text that the file has for it, and the value of any other node.
func (n *node) written() any {
	if n.raw != "" {
		return n.raw
	}
	return n.value
}

func unescape(token string) string {
	if plain, err := url.PathUnescape(token); err == nil {
		return plain
	}
	return token
}
