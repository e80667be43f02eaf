package exec

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/worker"
)

// implied returns the outputs of a step that declares none, and with references of another step to its stdout and stderr.
func implied(t *testing.T) []dagspec.Output {
	t.Helper()
	spec, err := dagspec.Parse("x.yaml", []byte(`{name: x, steps: [{id: a, run: echo}, {id: b, depends: [a], when: steps.a.stdout != steps.a.stderr, run: echo}]}`))
	if err != nil {
		t.Fatal(err)
	}
	g, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g.Step(0).Data.(*dagspec.Step).Outputs
}

// from returns one declared output, called o.
func from(source, kind string) []dagspec.Output {
	return []dagspec.Output{{Name: "o", Type: kind, From: source}}
}

func optional(outputs []dagspec.Output) []dagspec.Output {
	outputs[0].Optional = true
	return outputs
}

func TestCapture_OutputsOfABody(t *testing.T) {
	t.Parallel()
	x := setup(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	many := func(n int) string { return fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", n) }
	long := strings.Repeat("x", worker.MaxTextBytes)
	for _, tt := range []struct {
		name, text string
		outputs    []dagspec.Output
		want       string // the outputs, or the reason of a failure
	}{
		{"both streams", `printf ' \n yes\n\n'; echo warn >&2`, implied(t), `{"stdout":"yes","stderr":"warn"}`},
		{"silence", `:`, implied(t), `{"stdout":"","stderr":""}`},
		{"one newline", `printf ' yes\n\n'`, from("stdout", "string"), `{"o":" yes\n"}`},
		{"of stderr", `echo out; echo err >&2`, from("stderr", "string"), `{"o":"err"}`},
		{"a number", `echo; echo " 12.50 "`, from("stdout", "number"), `{"o":12.5}`},
		{"json", `printf '{"a":\n [1]}\n\n'`, from("stdout", "json"), `{"o":{"a":[1]}}`},
		{"not a number", `echo many`, from("stdout", "number"), `output o: "many" is not a number as JSON writes them`},
		{"not json", `echo '{}{}'`, from("stdout", "json"), `output o: not JSON: text follows the value`},
		{"empty json", `:`, from("stdout", "json"), `output o: not JSON: EOF`},
		{"empty optional json", `:`, optional(from("stdout", "json")), `{"o":null}`},
		{"empty optional text", `:`, optional(from("stdout", "string")), `{"o":""}`},

		{"the limit", many(worker.MaxTextBytes) + "; echo", implied(t)[:1], `{"stdout":"` + long + `"}`},
		{"one byte more", many(worker.MaxTextBytes + 1), from("stdout", "string"), `output o: stdout has 65537 bytes, at most 65536: put large data elsewhere, and output the address of the data`},
		{"much more", many(9 * worker.MaxTextBytes), implied(t)[:1], `output stdout, which is needed by steps.a.stdout in step b: stdout has more than 65536 bytes: write the text to a file elsewhere, and output its address, or declare JSON as outputs: [{name: stdout, from: stdout, type: json}], for up to 1 MiB`},
		{"the limit of json", `printf '"'; ` + many(worker.MaxJSONBytes-2) + `; echo '"'`, from("stdout", "json"), `{"o":"` + strings.Repeat("x", worker.MaxJSONBytes-2) + `"}`},
		{"NUL", `printf 'a\0b'`, implied(t)[:1], `output stdout, which is needed by steps.a.stdout in step b: stdout holds a NUL byte, which Postgres cannot store: encode the value, for example with base64`},
		{"not UTF-8", `printf 'a\377b'`, from("stdout", "string"), `output o: stdout is not UTF-8: convert or encode the value`},
		{"NUL that no output needs", `printf 'a\0b'`, nil, ``},

		{"a file", `mkdir out; echo '[1]' > out/f; ln -s out/f g`, from("file:g", "json"), `{"o":[1]}`},
		{"no file", `:`, from("file:f", "json"), `{}`},
		{"no file, optional", `:`, optional(from("file:f", "json")), `{"o":null}`},
		{"a large file", many(3*worker.MaxTextBytes) + " > f", from("file:f", "string"), `output o: file:f has more than 65536 bytes: put large data elsewhere, and output the address of the data`},
		{"a link that leads out", `ln -s ` + outside + ` f`, from("file:f", "string"), `output o: file:f: path escapes from parent: write a regular file below the working directory`},
		{"a folder that leads out", `ln -s ` + filepath.Dir(outside) + ` d`, from("file:d/outside", "string"), `output o: file:d/outside: path escapes from parent: write a regular file below the working directory`},
		{"a pipe", `mkfifo f`, from("file:f", "string"), `output o: file:f: not a regular file: write a regular file below the working directory`},
		{"a folder", `mkdir f`, from("file:f", "string"), `output o: file:f: not a regular file: write a regular file below the working directory`},
		{"from a file and written", `echo o=1 >> "$OARLOCK_OUTPUT"`, from("file:f", "string"), `$OARLOCK_OUTPUT line 1: o comes from file:f: remove the line, or the from of this output`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			task := task(dagspec.Step{Run: tt.text, Outputs: tt.outputs})
			r := x.run(t, task)
			got := string(r.Outputs)
			if r.Kind == dagrun.KindOutput {
				got = r.Reason
			} else if r.Kind != dagrun.KindNone {
				t.Fatalf("%+v; %s", r, stderr(task))
			}
			if got != tt.want {
				t.Errorf("got %.500s, want %.500s", got, tt.want)
			}
		})
	}
}

// A file that another step or attempt left in a folder that they share is no output of a body that did not write it.
func TestCapture_TakesOnlyFilesThatTheBodyWrote(t *testing.T) {
	t.Parallel()
	x := setup(t)
	old := time.Now().Add(-time.Hour)
	for _, tt := range []struct{ name, text, want string }{
		{"not touched", `cat f`, `{}`},
		{"behind a link", `ln -s f g; mv g f2`, `{}`},
		{"written again", `echo old > f`, `{"o":"old"}`},
		{"replaced", `echo new > g; mv g f`, `{"o":"new"}`},
		{"with its old time", `echo new > f; touch -d @` + strconv.FormatInt(old.Unix(), 10) + ` f`, `{"o":"new"}`},
		{"removed", `rm f`, `{}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "f")
			if err := os.WriteFile(file, []byte("old\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(file, old, time.Unix(old.Unix(), 0)); err != nil {
				t.Fatal(err)
			}
			task := task(dagspec.Step{Run: tt.text, WorkingDir: dir, Outputs: from("file:f", "string")})
			if r := x.run(t, task); r.Kind != dagrun.KindNone || string(r.Outputs) != tt.want {
				t.Errorf("got %+v, want %s; %s", r, tt.want, stderr(task))
			}
		})
	}
}

// What is stored is masked as the log is, which still gets everything.
func TestCapture_MasksSecrets(t *testing.T) {
	t.Parallel()
	x := setup(t)
	task := task(dagspec.Step{
		Run:     `echo "token hunter-2"; echo "hunter-2" > f`,
		Outputs: append(from("file:f", "string"), dagspec.Output{Name: "all", Type: "string", From: "stdout"}),
	})
	task.Secrets = map[string]string{"TOKEN": "hunter-2"}
	if got := x.run(t, task); got.Outputs != `{"o":"***","all":"token ***"}` || stdout(task) != "token hunter-2\n" {
		t.Errorf("got %+v; %q", got, stdout(task))
	}
}

// The end of stderr has whole lines and no secrets, and is kept only for steps that refer to it.
func TestTail_OfAFailure(t *testing.T) {
	t.Parallel()
	x := setup(t)
	spec, err := dagspec.Parse("x.yaml", []byte(`{name: x, steps: [{id: a, run: echo, on_error: [{when: error.stderr_tail != "", do: fail}]}, {id: b, run: echo}]}`))
	if err != nil {
		t.Fatal(err)
	}
	g, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("y", 99)
	lines := strings.Repeat(line+"\n", 41)
	for _, tt := range []struct {
		name, text, want string
		step             int
	}{
		{"lines", `echo out; printf 'one\ntwo\n\n' >&2; exit 3`, "one\ntwo", 0},
		{"by a signal", `echo dead >&2; kill -9 $$`, "dead", 0},
		{"of a success", `echo fine >&2`, "", 0},
		{"not asked for", `echo one >&2; exit 3`, "", 1},
		{"no text", `printf 'a\0b\377c' >&2; exit 3`, "a?b?c", 0},
		{"a secret", `echo "token hunter-2" >&2; exit 3`, "token ***", 0},
		{"the last lines", `yes ` + line + ` | head -n 9000 >&2; exit 3`, strings.TrimSuffix(lines[100:], "\n"), 0},
		{"one long line", `head -c 90000 /dev/zero | tr '\0' y >&2; exit 3`, strings.Repeat("y", tailBytes), 0},
		{"a secret that is cut", `printf 'hunter-2' >&2; head -c 4090 /dev/zero | tr '\0' z >&2; exit 3`, strings.Repeat("z", 4090), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body := *g.Step(tt.step).Data.(*dagspec.Step)
			body.Run = tt.text
			task := task(body)
			task.Secrets = map[string]string{"TOKEN": "hunter-2"}
			if got := x.run(t, task); got.Stderr != tt.want {
				t.Errorf("got %q, want %q", got.Stderr, tt.want)
			}
		})
	}
}

// A body is not asked for outputs if its exit code skips the task, or if it fails.
func TestCapture_AsksOnlySuccesses(t *testing.T) {
	t.Parallel()
	x := setup(t)
	for text, kind := range map[string]dagrun.FailureKind{"echo no json": dagrun.KindNone, "echo no json; exit 3": dagrun.KindExit} {
		if got := x.run(t, task(dagspec.Step{Run: text, Outputs: from("stdout", "json"), SkipExitCode: []int{0}})); got.Kind != kind || got.Outputs != "" {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// A stream to which no output refers has no capture, so its bytes are copied once, to the log.
func TestCapture_OnlyWhereAnOutputWantsIt(t *testing.T) {
	t.Parallel()
	for stream, want := range map[string]bool{"stdout": true, "stderr": false} {
		if got := captureOf(stream, append(from("stdout", "string"), from("", "json")...)); (got != nil) != want {
			t.Errorf("%s: %v", stream, got)
		}
	}
	c := captureOf("stdout", append(from("stdout", "string"), from("stdout", "json")...))
	var log bytes.Buffer
	c.to = &log
	for range 40 {
		if n, err := c.Write(make([]byte, copyBytes)); n != copyBytes || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(c.text) != worker.MaxJSONBytes+2 || log.Len() != 40*copyBytes {
		t.Errorf("kept %d bytes, passed on %d", len(c.text), log.Len())
	}
}
