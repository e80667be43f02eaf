package dagspec

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// streams are the streams of a command that can be outputs. A reference such as steps.a.stdout needs no declaration: it is to the
// output of the name of the stream, which Compile adds to step a.
var streams = []string{"stdout", "stderr"}

// executes reports whether the body is a command, which has streams and files.
func (s *Step) executes() bool { return s.Run != "" || s.Command != "" }

// File returns the path of the file from which an output comes, relative to the working directory of the body. It returns "" if the
// output does not come from a file, or if the path leads out of that directory.
func (o Output) File() string {
	path, ok := strings.CutPrefix(o.From, "file:")
	if !ok || !filepath.IsLocal(path) {
		return ""
	}
	return filepath.Clean(path)
}

// NeededBy returns the first reference to an output that a step of a Graph has only because of such a reference, with the name of the
// step that refers, such as "steps.a.stdout in step b". It returns "" for an output that the file declares.
//
// The output is the text of a stream without the white space around it. A declared output loses only its last newline.
func (o Output) NeededBy() string { return o.neededBy }

// checkStream returns the mistake in a reference such as steps.a.stdout to the step, nil for none: the body has no such stream, or
// the step declares another output of the same name.
func (s *Step) checkStream(f ref) *problem {
	stream := f.stream()
	if !s.executes() {
		_, known, _ := s.output(stream)
		hint := "only a body of kind run or command has one"
		switch {
		case len(known) > 0:
			hint += ": this step has the outputs " + strings.Join(known, ", ")
		case s.Action != "" && builtins[s.Action] == nil:
			hint += ": declare the outputs that " + s.Action + " returns"
		}
		return f.wrong(hint, "step %q has no %s", s.ID, stream)
	}
	for _, o := range s.Outputs {
		if o.Name == stream && o.From != stream {
			return f.wrong("write steps."+s.ID+".outputs."+stream+", or give this output another name", "step %q declares an output %s that is not from: %s", s.ID, stream, stream)
		}
	}
	return nil
}

// streamUses holds, by the id of a step and the name of a stream, the first reference to it, as Output.NeededBy returns it.
type streamUses map[string]map[string]string

// streamUses finds the references to streams in all texts and expressions of the DAG.
func (s *Spec) streamUses() streamUses {
	uses := streamUses{}
	for i := range s.Steps {
		step := &s.Steps[i]
		step.eachBody(func(body *Step) { uses.add("step "+step.ID, body) })
	}
	for _, h := range s.HandlerOn.all() {
		h.step.eachBody(func(body *Step) { uses.add("handler "+h.key, body) })
	}
	return uses
}

// add adds the references of one body of a step or handler. place names the step or handler.
func (u streamUses) add(place string, s *Step) {
	refs := s.streamRefs()
	for _, f := range refs {
		id, stream := f.step(), f.stream()
		if u[id] == nil {
			u[id] = map[string]string{}
		}
		if u[id][stream] == "" {
			u[id][stream] = f.String() + " in " + place
		}
	}
}

// outputs returns the outputs of a step: those that it declares, and for a command also those that only references need. A
// replacement of a command may be an action. Then it has only the declared ones, and the action returns all of them, also those that
// the failed command takes from a stream or a file.
func (u streamUses) outputs(s *Step) []Output {
	list := slices.Clone(s.Outputs)
	if !s.executes() {
		list = slices.DeleteFunc(list, func(o Output) bool { return o.neededBy != "" })
		for i := range list {
			list[i].From = ""
		}
		return list
	}
	for _, stream := range streams {
		needed := u[s.ID][stream]
		if needed != "" && !slices.ContainsFunc(list, func(o Output) bool { return o.Name == stream }) {
			list = append(list, Output{Name: stream, Type: "string", From: stream, neededBy: needed})
		}
	}
	return list
}

// undeclared returns the names of the outputs that only references need.
func (s *Step) undeclared() []string {
	var names []string
	for _, o := range s.Outputs {
		if o.neededBy != "" {
			names = append(names, o.Name)
		}
	}
	return names
}

// KeepsTail reports whether a failure of the body has to keep the end of its stderr. It has to if a rule of on_error, or a
// replacement, refers to error.stderr_tail. The step must be of a Graph.
func (s *Step) KeepsTail() bool { return s.keepsTail }

// namesTail reports whether texts or expressions that deal with a failure of the body refer to the end of its stderr.
func (s *Step) namesTail() bool {
	if !s.executes() {
		return false
	}
	found := false
	for _, rule := range s.OnError {
		for _, f := range streamsIn(rule.When) {
			found = found || f.isTail()
		}
		for _, body := range rule.bodies() {
			body.eachBody(func(body *Step) {
				found = found || slices.ContainsFunc(body.refsToStreams(), ref.isTail)
			})
		}
	}
	return found
}

// streamRefs returns the references to outputs that come from streams, as refsToStreams finds them.
func (s *Step) streamRefs() []ref {
	return slices.DeleteFunc(s.refsToStreams(), func(f ref) bool { return f.stream() == "" })
}

// refsToStreams returns the references that may be to streams in the texts and expressions of one body and of what decides about it.
// It does not look into the publish and the replacements, which are bodies of their own.
func (s *Step) refsToStreams() []ref {
	var refs []ref
	add := func(f ref) { refs = append(refs, f) }
	for _, text := range s.references() {
		if !namesStream(text) {
			continue
		}
		t, _ := parseTemplate(text)
		for _, f := range t.refs() {
			add(f)
		}
		for _, part := range t {
			for _, f := range streamsIn(expressionIn(part.source)) {
				add(f)
			}
		}
	}
	for _, text := range s.conditions() {
		for _, f := range streamsIn(text) {
			add(f)
		}
	}
	return refs
}

// namesStream reports whether a text can refer to a stream. It saves most texts and expressions a second parse.
func namesStream(text string) bool {
	return slices.ContainsFunc(streams, func(stream string) bool { return strings.Contains(text, stream) })
}

// references returns the texts of a body in which references and computed values are filled in.
func (s *Step) references() []string {
	texts := append([]string{s.Name}, s.Args.List...)
	for _, m := range []map[string]string{s.Env, s.Labels} {
		for _, key := range sortedKeys(m) {
			texts = append(texts, m[key])
		}
	}
	texts = append(texts, textsIn(s.With)...)
	if s.Stdin != nil {
		texts = append(texts, s.Stdin.Text, "${"+s.Stdin.Output+"}")
	}
	if s.Foreach != nil {
		texts = append(append(texts, textsIn(s.Foreach.Items.List)...), s.Foreach.Items.Ref)
	}
	return texts
}

// conditions returns the expressions of a body.
func (s *Step) conditions() []string {
	list := []string{s.When, s.Priority.Expr}
	if s.Cache != nil {
		list = append(list, s.Cache.Key)
	}
	if s.Foreach != nil {
		list = append(list, s.Foreach.Key)
	}
	for _, rule := range s.OnError {
		list = append(list, rule.When)
	}
	return list
}

// streamsIn returns the references in an expression that may be to streams. It returns nil if the expression has mistakes, which
// compile reports.
func streamsIn(text string) []ref {
	if !namesStream(text) {
		return nil
	}
	tree, err := parser.ParseWithConfig(readSource(text).read, budget())
	if err != nil {
		return nil
	}
	scan := &refScan{inner: map[ast.Node]bool{}, local: map[string]bool{}}
	ast.Walk(&tree.Node, scan)
	var refs []ref
	for _, node := range scan.chains {
		if path, dynamic := chain(node); len(path) > 0 && !dynamic && !scan.local[path[0]] {
			refs = append(refs, ref{path: path})
		}
	}
	return refs
}
