// Package dagspec turns a DAG file (YAML or JSON) into a checked Spec and a graph that package dagrun can drive.
//
// # From text to graph
//
//	spec, err := dagspec.Parse("etl.yaml", source) // err is an Errors: every problem of the file, by position
//	needs := spec.Needs()                          // refuse here what no worker can execute
//	params, err := spec.Params(given)              // err is a ParamErrors
//	graph, err := spec.Graph()
//	run := dagrun.New(graph, dagrun.Options{Context: dagspec.Context{Params: params, …}})
//	task, err := step.Resolve(run.Scope(id))       // step is the Data of the graph's step: ${…} filled in
//
// A Spec is stored as JSON and read back with FromJSON: same meaning, same Hash. Parse merges `defaults:` into the steps, so
// a stored spec has none.
//
// # Two small languages
//
// References, `${params.day}`, are filled into texts. A text that consists of one reference keeps the type of the value where
// the field can hold it (with, foreach.items); anywhere else the value becomes text: strings as they are, other values as
// compact JSON. Expressions (when, priority, key) are expr-lang with a typed environment and without anything impure: a
// resumed run must decide the same again. A reference without a value (an output of a step that did not succeed, an unset
// environment variable, an optional param) is an error where it is used, unless default() gives a value:
// `steps.a.outputs.n | default(0)`, in both languages.
//
// # What the package does not know
//
// Databases, processes, clocks. Every function here is a pure function of its arguments. A Spec does not change after it was
// made, so any number of goroutines may share it.
package dagspec
