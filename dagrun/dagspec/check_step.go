package dagspec

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/spelling"
)

// step checks a step: the fields that handlers and replacements do not have, such as foreach, and then its body.
func (c *checker) step(s *Step, n *node) {
	known := c.names.of(s)
	if _, depends := n.find("depends"); s.TriggerRule != "" && len(depends.itemsOrNone()) == 0 {
		if rule, err := dagrun.ParseRule(s.TriggerRule); err == nil && rule != dagrun.AllSuccess && rule != dagrun.AllDone {
			c.add(n.get("trigger_rule").pos(), "add depends:, or remove trigger_rule", "trigger_rule %s works only with depends:, which is missing", s.TriggerRule)
		}
	}
	if f := n.get("foreach"); f != nil && s.Foreach != nil {
		c.foreach(s, n, f, known)
	}
	if s.Precomputable && s.Foreach != nil {
		c.add(n.get("precomputable").pos(), "remove precomputable", "a step with foreach cannot be precomputed")
	}
	c.body(s, n, "", known)
}

func (c *checker) foreach(s *Step, n, f *node, known *names) {
	if s.Result != nil {
		c.add(n.get("result").pos(), "remove one of the two", "foreach and result exclude each other")
	}
	outside := *known
	outside.item = ""
	if !c.items(s.Foreach, f, &outside) {
		return
	}
	c.expression(f.get("key"), known, wantText)
}

// items checks the items and the name of the item of a foreach, and reports whether that name is one. known are the names for the
// items, which do not see the item.
func (c *checker) items(each *Foreach, f *node, known *names) bool {
	items := f.get("items")
	switch {
	case items == nil:
	case items.kind == kindString:
		if t, problems := parseTemplate(strings.TrimSpace(items.text())); t.single() == nil && len(problems) == 0 {
			c.add(items.pos(), "write [a, b], one reference such as ${params.items}, or one computed value such as ${= range(1, 4)}", "items must be a list, or one ${reference} to a list")
			break
		}
		c.textOf(items, known, wantList)
	default:
		c.texts(items, known)
		if len(items.items) > each.MaxItems {
			c.add(items.pos(), "raise max_items", "%d items are more than max_items, %d", len(items.items), each.MaxItems)
		}
	}
	if slices.Contains([]string{"params", "steps", "env", "run", "error", "default", "true", "false", "nil", "not", "in", "let", "if", "else", "secrets"}, each.As) {
		c.add(f.get("as").pos(), "choose another name", "as: %s has a meaning already", each.As)
		return false
	}
	return true
}

// body checks the fields that steps, handlers and replacements have in common. inherited is the kind of body that a replacement
// takes over if it has none itself, and "" elsewhere. body adds the step's variables and secrets to known, which must be the
// caller's own copy.
func (c *checker) body(s *Step, n *node, inherited string, known *names) {
	known.env = merged(known.env, s.Env)
	known.declareSecrets(s.Secrets)
	kind := c.oneBody(s, n, inherited)
	c.bodyParts(s, n, kind)
	if s.Args.Append && kind == "command" && inherited != "" && inherited != "command" {
		c.add(n.get("args").pos(), "write the list alone", "the failed step is no command, so it has no arguments to append to")
	}
	c.bodyTexts(s, n, known)
	if s.Action != "" {
		c.action(s, n, inherited)
	}
	c.expression(n.get("when"), known, wantBool)
	c.expression(n.get("priority"), known, wantNumber)
	c.expression(n.in("cache", "key"), known, wantText)
	c.outputs(s, n, kind)
	s.own(func(q quantity) { c.quantity(n, q) })
	c.onError(s, n, kind, known)
	if p := n.get("publish"); p != nil && s.Publish != nil {
		c.publish(s, n, p, kind, known)
	}
}

var bodyKinds = []string{"run", "command", "action", "result"}

// oneBody reports a step with no body or with several, and returns the kind of its body. A replacement without a body has the kind
// inherited. The kind is "" if it is not known.
func (c *checker) oneBody(s *Step, n *node, inherited string) string {
	var given []string
	for _, kind := range bodyKinds {
		if n.has(kind) {
			given = append(given, kind)
		}
	}
	switch {
	case len(given) > 1:
		key, _ := n.find(given[1])
		c.add(key.pos(), "keep one of them", "there are several bodies: %s", strings.Join(given, ", "))
		return ""
	case len(given) == 0 && inherited == "" && !n.unreadable():
		c.add(n.pos(), "add one of run, command, action and result", "%s has no body", c.called(s))
	case len(given) == 0:
		return inherited
	}
	return strings.Join(given, "")
}

func (c *checker) called(s *Step) string {
	if s.ID != "" {
		return fmt.Sprintf("step %q", s.ID)
	}
	return "this"
}

// goesWith lists, for each field that does not apply to all bodies, the kinds of body that it applies to.
var goesWith = []struct {
	field string
	kinds []string
}{
	{"args", []string{"command"}},
	{"with", []string{"action"}},
	{"shell", []string{"run"}},
	{"stdin", []string{"run", "command"}},
	{"working_dir", []string{"run", "command"}},
	{"secrets", []string{"run", "command", "action"}},
}

// bodyParts reports fields that have no effect for this kind of body, a command that is a whole command line, and a mark_success
// that nothing can trigger. A kind of "" means that the body is not known: then it checks nothing.
func (c *checker) bodyParts(s *Step, n *node, kind string) {
	if kind == "" {
		return
	}
	for _, g := range goesWith {
		if key, _ := n.find(g.field); key != nil && !slices.Contains(g.kinds, kind) {
			hint := "this key needs a body of kind " + oneOf(g.kinds)
			if g.field == "args" && kind == "run" {
				hint = "give a script its values by env:"
			}
			c.add(key.pos(), hint, "%s does nothing for a body of kind %s", g.field, kind)
		}
	}
	if key, _ := n.find("slots"); key != nil && (kind == "result" || s.Action != "" && s.body() != dagrun.BodyTask) {
		c.add(key.pos(), "remove it", "%s takes no slots", cmp.Or(s.Action, "a precomputed result"))
	}
	if s.Command != "" && strings.ContainsAny(s.Command, " \t\n") && !n.has("args") {
		c.add(n.get("command").pos(), commandHint(s.Command), "command is a program, not a command line")
	}
	if s.ContinueOn.MarkSuccess && !s.ContinueOn.Failure && len(s.ContinueOn.ExitCode) == 0 {
		c.add(n.in("continue_on", "mark_success").pos(), "add failure: true or exit_code: [..]", "mark_success works only with failure: true or exit_code:")
	}
}

// bodyTexts checks every text of a body by the rules of its field: which references it may have, whether it may hold secrets, and
// that no reference stands in a script.
func (c *checker) bodyTexts(s *Step, n *node, known *names) {
	c.ownVariables(n.get("env"))
	c.stepSecrets(s, n, known)
	c.texts(n.get("env"), known.belowStep())
	for _, key := range []string{"args", "labels", "name"} {
		c.texts(n.get(key), known.in(key))
	}
	c.script(n.get("run"), "run", known)
	c.noBrackets(n.get("run"), s.Shell)
	c.noReferences(n.get("command"))
	c.noReferences(n.get("working_dir"))
	c.pools(s, n.get("pool"))
	c.shell(n.get("shell"))
	if in := n.get("stdin"); in != nil {
		c.text(in, known)
		c.text(in.get("text"), known)
		c.noReferences(in.get("file"))
		c.stdinOutput(in.get("output"), known)
	}
	for key, v := range n.get("with").fields() {
		if s.Action == "postgres.query" && key.text() == "sql" {
			c.statements(v, n.in("with", "params"), known)
			continue
		}
		if s.Action == "approval" && key.text() == "inputs" {
			continue // declared as params are: approval refuses references
		}
		if s.takesSecrets(key.text()) {
			c.texts(v, known.withSecrets())
			continue
		}
		c.texts(v, known)
	}
}

// statements checks the SQL of postgres.query: one statement, or a list of statements with params of their own. A list must not
// come with params for the whole.
func (c *checker) statements(n, params *node, known *names) {
	c.script(n, "sql", known)
	for item := range n.list() {
		c.script(item, "sql", known)
		c.script(item.get("sql"), "sql", known)
		c.texts(item.get("params"), known)
	}
	if n.kind == kindList && params != nil {
		c.add(params.pos(), "write {sql: …, params: […]} in the list", "params belong to a single statement, and sql is a list")
	}
}

// ownVariables reports variables in env with names that begin with OARLOCK_, because Oarlock sets such variables for every task and
// would overwrite them.
func (c *checker) ownVariables(env *node) {
	for key := range env.fields() {
		if strings.HasPrefix(key.text(), ownPrefix) {
			c.add(key.pos(), "choose another name", "%s: variables that begin with %s are set for every task", key.text(), ownPrefix)
		}
	}
}

func (c *checker) stdinOutput(n *node, known *names) {
	if n == nil {
		return
	}
	f := ref{path: strings.Split(n.text(), "."), part: n.text()}
	if !refPattern.MatchString(n.text()) || f.root() != "steps" || !f.isOutput() {
		c.add(n.pos(), "write steps.id.outputs.name, without ${}", "stdin.output must be a reference to an output, not %s", n.show())
		return
	}
	if _, p := known.check(f); p != nil {
		c.problem(n, *p)
		return
	}
	c.used(n, known, f)
}

// outputs reports outputs that are declared twice, and outputs that come from where a body of this kind writes nothing.
func (c *checker) outputs(s *Step, n *node, kind string) {
	seen := map[string]pos{}
	nodes := slices.Collect(n.get("outputs").list())
	for i, o := range s.Outputs {
		at := nodes[i]
		if at.kind == kindMap {
			c.source(o, at.get("from"), kind)
			at = at.get("name")
		}
		c.twice(seen, o.Name, at, "output")
	}
}

// source checks the key from of an output. from may be nil, and a kind of "" means that the body is not known.
func (c *checker) source(o Output, from *node, kind string) {
	switch {
	case from == nil:
	case kind != "" && kind != "run" && kind != "command":
		c.add(from.pos(), "remove from: an action returns its outputs by name", "from does nothing for a body of kind %s", kind)
	case o.From == "exit_code":
		c.add(from.pos(), "remove the output, and refer to steps.ID.exit_code, which each step has",
			"outputs exist only after a success, so an output from exit_code would always be 0")
	case o.File() != "" || slices.Contains(streams, o.From):
		c.noReferences(from)
	default:
		c.add(from.pos(), "write a path below the working directory, such as file:report.json", "%s is no file that an output can come from", from.show())
	}
}

// onError checks the rules of on_error and the bodies of their replacements. kind is the kind of the step's own body.
func (c *checker) onError(s *Step, n *node, kind string, known *names) {
	rules := slices.Collect(n.get("on_error").list())
	for i, rule := range s.OnError {
		r := rules[i]
		c.expression(r.get("when"), known.withFailure(kind), wantBool)
		if limit := n.in("retry_policy", "limit"); rule.Do == "retry" && limit != nil && s.RetryPolicy.Limit == (Count{}) {
			c.add(r.get("do").pos(), "set retry_policy.limit to 1 or more", "do: retry with a retry_policy that has limit 0")
		}
		replaces := rule.Do == "replace" || rule.Do == "ask"
		if !replaces && r.has("with") && rule.Do != "" {
			c.add(r.get("with").pos(), "write do: replace, or remove with", "with does nothing for do: %s", rule.Do)
		}
		if replaces && !r.has("with") {
			c.add(r.pos(), "add with: and a step body", "do: %s has no with:", rule.Do)
		}
		if rule.Do != "ask" && r.has("ask") && rule.Do != "" {
			c.add(r.get("ask").pos(), "write do: ask, or remove ask", "ask does nothing for do: %s", rule.Do)
		}
		if rule.Do == "ask" && !r.has("ask") {
			c.add(r.pos(), "add ask: and a program that chooses among with", "do: ask has no ask:")
		}
		if rule.When == "" && !r.has("when") && i < len(s.OnError)-1 {
			c.add(r.pos(), "put this rule last", "no rule after this one is ever tried: this rule has no when")
		}
		c.replacements(&s.OnError[i], r, kind, known)
	}
}

func (c *checker) publish(s *Step, n, p *node, kind string, known *names) {
	if kind == "result" || kind == "action" && s.body() != dagrun.BodyTask {
		key, _ := n.find("publish")
		c.add(key.pos(), "put publish into another step", "publish works only in a step that executes run, command or an action such as http.request")
	}
	if b := builtins[s.Publish.Action]; b != nil && b.body != dagrun.BodyTask || p.has("result") {
		c.add(p.pos(), "use run, command, or an action such as http.request", "the body of publish cannot be a result, a noop, an approval, a wait or a child run")
	}
	c.body(s.Publish, p, "", known.at(inPublish))
}

// action checks the name of an action, and of a built-in action the fields of `with` that depend on each other or have a form. An
// unknown name is accepted, because a program that embeds a worker may have such an action. It is a mistake only if it begins like
// an action of Oarlock or is misspelt by one letter.
func (c *checker) action(s *Step, n *node, inherited string) {
	at := n.get("action")
	b := builtins[s.Action]
	if b == nil {
		first, _, dotted := strings.Cut(s.Action, ".")
		hint, near := nearest(s.Action, sortedKeys(builtins))
		if dotted && slices.Contains(reserved, first) || near && spelling.Distance(s.Action, strings.TrimSuffix(strings.TrimPrefix(hint, "did you mean "), "?")) == 1 {
			if !near {
				hint = actionHint(first)
			}
			c.add(at.pos(), hint, "unknown action %q", s.Action)
		}
		return
	}
	if len(b.required) > 0 && !n.has("with") && inherited != "action" {
		c.add(at.pos(), "add with: {"+b.required[0]+": …}", "%s needs with", s.Action)
		return
	}
	with := n.get("with")
	switch s.Action {
	case "approval":
		c.approval(s, n, with)
	case "wait":
		c.timeText(with.get("until"))
	case "dag.enqueue":
		c.timeText(with.get("run_at"))
	case "http.request":
		c.url(with.get("url"))
	}
	if s.Action == "wait" {
		c.url(with.in("http", "url"))
	}
}

// actionHint proposes an action that begins with the given first part, and lists all actions. The first part must be one of
// reserved.
func actionHint(first string) string {
	all := sortedKeys(builtins)
	near := all[slices.IndexFunc(all, func(name string) bool { return strings.HasPrefix(name, first+".") })]
	return "did you mean " + near + "? the actions of Oarlock are " + strings.Join(all, ", ")
}

// approval checks an approval step: it reports fields that would decide in place of a person, a timeout that is no duration, and
// mistakes in the declarations of its inputs.
func (c *checker) approval(s *Step, n, with *node) {
	for _, field := range []string{"cache", "precomputable"} {
		if key, _ := n.find(field); key != nil {
			c.add(key.pos(), "remove this key: a person has to approve", "%s does nothing for an approval", field)
		}
	}
	if timeout := with.get("timeout"); timeout != nil && !c.isParam(timeout) && !timeout.bad {
		if _, err := ParseDuration(timeout.text()); err != nil {
			c.add(timeout.pos(), "", "%v", err)
		}
	}
	nodes := slices.Collect(with.get("inputs").list())
	inputs := s.inputs()
	c.declarations(inputs, nodes, "input")
	for i, p := range inputs {
		n := nodes[i]
		for _, v := range n.fields() {
			c.noReferences(v)
		}
		if p.Name == "comment" {
			at := n
			if n.kind == kindMap {
				at = n.get("name")
			}
			c.add(at.pos(), "remove it if you mean that comment, or choose another name", "an input cannot be called comment: the comment of each approver is the output of this name")
		}
	}
}

func (c *checker) timeText(n *node) {
	if n == nil || strings.Contains(n.text(), "${") {
		return
	}
	if _, err := time.Parse(time.RFC3339, n.text()); err != nil {
		c.add(n.pos(), "write a time such as 2026-11-20T03:00:00Z, or with an offset such as +01:00", "%q is no time", n.text())
	}
}

func (c *checker) url(n *node) {
	if n == nil || strings.HasPrefix(n.text(), "${") {
		return
	}
	if !strings.HasPrefix(n.text(), "http://") && !strings.HasPrefix(n.text(), "https://") {
		c.add(n.pos(), "begin with https:// or http://", "%q is no URL", n.text())
	}
}

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

// ShellCommand splits the words of `shell:` into the program with its arguments, and the flag that comes before a script. If the
// last word is a flag after which the program takes a script, such as -c, or -e for ruby, it becomes the flag. If not, the flag is
// -c and program is all words. The last word of bash -ec is split into -e and -c. shell is not changed, but program may share its
// memory.
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

// isPOSIX reports whether one of the words is a shell or Python: a program for which several letters behind one dash are separate
// flags.
func isPOSIX(words []string) bool {
	for _, word := range words {
		base := strings.TrimRight(path.Base(word), "0123456789.")
		if base == "python" || base == "pypy" || base == "fish" || strings.HasSuffix(base, "sh") {
			return true
		}
	}
	return false
}

// shell reports references in a `shell:`, and an interpreter that would not run a script, see CheckShell. n may be nil.
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

// CheckShell finds a shell that would not run a script: an interpreter for which -c means something else. It returns a message and
// what to write instead, and "" twice for a good or empty shell.
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
