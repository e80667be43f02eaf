package exec

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/worker"
)

var declared = []dagspec.Output{{Name: "s", Type: "string", Optional: true}, {Name: "n", Type: "number", Optional: true}, {Name: "j", Type: "json", Optional: true}}

func TestParseOutputs_Grammar(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text, want string // want: JSON, or a part of the error
	}{
		{"nothing", "", `{"s":null,"n":null,"j":null}`},
		{"a line", "s=v\n", `{"s":"v","n":null,"j":null}`},
		{"without the last newline", "s=v", `{"s":"v","n":null,"j":null}`},
		{"empty", "s=\n", `{"s":"","n":null,"j":null}`},
		{"never trimmed", "s= v \t\r\n", `{"s":" v \t\r","n":null,"j":null}`},
		{"more equals", "s=a=b\n", `{"s":"a=b","n":null,"j":null}`},
		{"equals before <<", "s=a<<b\n", `{"s":"a<<b","n":null,"j":null}`},
		{"block", "s<<EOF\na\nb\nEOF\n", `{"s":"a\nb","n":null,"j":null}`},
		{"block, last newline missing", "s<<EOF\na\nEOF", `{"s":"a","n":null,"j":null}`},
		{"empty block", "s<<EOF\nEOF\n", `{"s":"","n":null,"j":null}`},
		{"block that ends in a newline", "s<<EOF\na\n\nEOF\n", `{"s":"a\n","n":null,"j":null}`},
		{"block with lines like entries", "s<<E\nn=1\n E\nE \nEE\nE\nn=2\n", `{"s":"n=1\n E\nE \nEE","n":2,"j":null}`},
		{"delimiter with an equals", "s<<a=b\nx\na=b\n", `{"s":"x","n":null,"j":null}`},
		{"html stays", "s=<a&b>\n", `{"s":"<a&b>","n":null,"j":null}`},
		{"all", "j={\"a\": [1, 2]}\nn=1\ns=x\n", `{"s":"x","n":1,"j":{"a":[1,2]}}`},
		{"json in a block", "j<<E\n{\n \"a\": 1\n}\nE\n", `{"s":null,"n":null,"j":{"a":1}}`},
		{"json keeps digits", "j=123456789012345678901.50\n", `{"s":null,"n":null,"j":123456789012345678901.50}`},
		{"json null", "j=null\n", `{"s":null,"n":null,"j":null}`},

		{"undeclared", "x=1\n", `line 1: "x" is not declared`},
		{"spaces are part of a name", "s =1\n", `"s " is not declared`},
		{"no name", "=1\n", `"" is not declared`},
		{"twice", "s=1\nn=2\ns=3\n", `line 3: s was written already`},
		{"malformed", "s=1\nhello\n", `line 2: "hello" is neither`},
		{"blank line", "s=1\n\n", `line 2: "" is neither`},
		{"one <", "s<EOF\n", `is neither`},
		{"unclosed", "n=1\ns<<EOF\na\nEOF \n", `line 2: the block of s has no end: no line is "EOF"`},
		{"unclosed at once", "s<<EOF\n", `has no end`},
		{"no delimiter", "s<<\na\n\n", `has no end marker`},
		{"after a block", "s<<E\n\n\nE\nrest\n", `line 5: "rest"`},
		{"NUL", "s=a\x00b\n", `holds a NUL byte`},
		{"bad UTF-8", "s=a\xff\n", `is not UTF-8`},
		{"bad UTF-8 in a block", "s<<E\n\xc3\nE\n", `is not UTF-8`},
		{"no JSON", "j={a}\n", `output j: not JSON`},
		{"empty JSON", "j=\n", `output j: not JSON`},
		{"two documents", "j=1 2\n", `text follows`},
		{"NUL in JSON", `j="a\u0000b"` + "\n", `the value holds \u0000, which Postgres cannot store`},
		{"NUL in a key", `j={"\u0000":1}` + "\n", `the value holds \u0000, which Postgres cannot store`},
		{"number out of range in JSON", "j=[1e400]\n", `out of range`},
		{"number near zero in JSON", "j=1e-20000\n", `out of range`},
		{"deep JSON", "j=" + strings.Repeat("[", 600) + strings.Repeat("]", 600) + "\n", `nested more than 500`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseOutputs(tt.text, declared, nil)
			if err != nil {
				got = dagrun.JSON(err.Error())
			}
			if wantError := !strings.HasPrefix(tt.want, "{"); wantError != (err != nil) || wantError && !strings.Contains(string(got), tt.want) || !wantError && string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestParseOutputs_Numbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0": "0", "-0": "0", "0.0": "0", "-0.0e5": "0", "1": "1", "-17": "-17", "1.50": "1.5", "1e3": "1000", "1E+2": "100", "0.1": "0.1", "1e21": "1e+21", "1e-7": "1e-07",
		"12345678901234567890123": "12345678901234567890123", "9007199254740993": "9007199254740993",
		"": "", " 1": "", "1 ": "", "+1": "", "01": "", "1.": "", ".5": "", "0x10": "", "1_000": "", "NaN": "", "Infinity": "", "1e999": "", "1e-999": "", "true": "", `"1"`: "", "null": "", "[1]": "", "1\r": "",
	} {
		got, err := encodeNumber(text)
		if want == "" {
			if err == nil {
				t.Errorf("%q is taken as %s", text, got)
			}
			continue
		}
		var a, b float64
		_, _ = json.Unmarshal(got, &a), json.Unmarshal([]byte(want), &b)
		if err != nil || len(got) > len(want) || a != b {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
}

func TestParseOutputs_Limits(t *testing.T) {
	t.Parallel()
	x := func(n int) string { return strings.Repeat("x", n) }
	many := make([]dagspec.Output, 20)
	sixteen := ""
	for i := range many {
		many[i] = dagspec.Output{Name: string(rune('a' + i)), Type: "string"}
		if i < 16 {
			sixteen += many[i].Name + "=" + x(worker.MaxTextBytes) + "\n"
		}
	}
	seventeen := sixteen + "t=y\n"
	for _, tt := range []struct {
		name, text string
		declared   []dagspec.Output
		want       string
	}{
		{"a value", "s=" + x(worker.MaxTextBytes), declared, ""},
		{"a value too long", "s=" + x(worker.MaxTextBytes+1), declared, "s has 65537 bytes, at most 65536"},
		{"json", `j="` + x(worker.MaxJSONBytes-2) + `"`, declared, ""},
		{"json too long", `j="` + x(worker.MaxJSONBytes-1) + `"`, declared, "j has 1048577 bytes, at most 1048576"},
		{"all", sixteen, many, ""},
		{"too much in all", seventeen, many, "the outputs have more than 1048576 bytes"},
	} {
		_, err := parseOutputs(tt.text, tt.declared, nil)
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestOutputs_OfABody(t *testing.T) {
	t.Parallel()
	x := setup(t)
	for _, tt := range []struct {
		name, text string
		outputs    []dagspec.Output
		want       dagrun.Result
	}{
		{"none", `[ ! -s "$OARLOCK_OUTPUT" ] && [ -f "$OARLOCK_OUTPUT" ]`, nil, dagrun.Result{HasExit: true}},
		{"some", `echo "s=v" >> "$OARLOCK_OUTPUT"`, declared, dagrun.Result{HasExit: true, Outputs: `{"s":"v","n":null,"j":null}`}},
		{"required and missing", `echo "n=1" >> "$OARLOCK_OUTPUT"`, []dagspec.Output{{Name: "s", Type: "string"}, {Name: "n", Type: "number"}}, dagrun.Result{HasExit: true, Outputs: `{"n":1}`}},
		{"heredoc", "cat >>\"$OARLOCK_OUTPUT\" <<X\ns<<EOF\nline 1\nline 2\nEOF\nX\n", declared, dagrun.Result{HasExit: true, Outputs: `{"s":"line 1\nline 2","n":null,"j":null}`}},
		{"renamed into place", `echo s=v > new; mv new "$OARLOCK_OUTPUT"`, declared, dagrun.Result{HasExit: true, Outputs: `{"s":"v","n":null,"j":null}`}},
		{"of a failure", `echo s=v >> "$OARLOCK_OUTPUT"; exit 3`, declared, dagrun.Result{Kind: dagrun.KindExit, ExitCode: 3, HasExit: true, Reason: "exit 3"}},
		{"undeclared", `echo s=v >> "$OARLOCK_OUTPUT"`, nil, dagrun.Result{Kind: dagrun.KindOutput, HasExit: true, Reason: `$OARLOCK_OUTPUT line 1: "s" is not declared: add "s" to outputs`}},
		{"removed", `rm "$OARLOCK_OUTPUT"`, declared, dagrun.Result{Kind: dagrun.KindOutput, HasExit: true, Reason: "the file $OARLOCK_OUTPUT was removed, or replaced by an object that is not a file"}},
		{"a link", `ln -sf /etc/passwd "$OARLOCK_OUTPUT"`, declared, dagrun.Result{Kind: dagrun.KindOutput, HasExit: true, Reason: "the file $OARLOCK_OUTPUT was removed, or replaced by an object that is not a file"}},
		{"a pipe", `rm "$OARLOCK_OUTPUT"; mkfifo "$OARLOCK_OUTPUT"`, declared, dagrun.Result{Kind: dagrun.KindOutput, HasExit: true, Reason: "$OARLOCK_OUTPUT was replaced by an object that is not a file"}},
		{"a flood", `head -c 3000000 /dev/zero > "$OARLOCK_OUTPUT"`, declared, dagrun.Result{Kind: dagrun.KindOutput, HasExit: true, Reason: "$OARLOCK_OUTPUT has more than 2097152 bytes: put large data elsewhere, and output the address of the data"}},
		{"written by what it left behind", `{ sleep 0.05; echo s=late >> "$OARLOCK_OUTPUT"; } >/dev/null 2>&1 & exit 0`, declared, dagrun.Result{HasExit: true, Outputs: `{"s":"late","n":null,"j":null}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			task := task(dagspec.Step{Run: tt.text, Outputs: tt.outputs})
			if got := x.run(t, task); got != tt.want {
				t.Errorf("got %+v, want %+v; %s", got, tt.want, stderr(task))
			}
		})
	}
}

func TestFolder_IsEmptyOwnAndGoneAfterwards(t *testing.T) {
	t.Parallel()
	x := setup(t, func(c *Config) { c.RunDir = t.TempDir() })
	task := shell(`[ "$PWD" = "$(pwd)" ]; ls -A; stat -c %a .; pwd; mkdir -p a/b; touch a/b/c; chmod 0 a/b a; cat "$OARLOCK_UPSTREAM"`)
	upstream := `{"a":{"state":"succeeded"}}`
	task.Upstream = func() ([]byte, error) { return []byte(upstream), nil }
	if got := x.run(t, task); got.Kind != dagrun.KindNone || !strings.HasPrefix(stdout(task), "700\n"+x.dir) || !strings.HasSuffix(stdout(task), upstream) {
		t.Fatalf("got %+v, %q, %s", got, stdout(task), stderr(task))
	}
	bare := shell(`cat "$OARLOCK_UPSTREAM"`)
	if x.run(t, bare); stdout(bare) != "{}" {
		t.Errorf("without parents: %q", stdout(bare))
	}
	x.onlyFree(t)
	if left, _ := os.ReadDir(x.files.path); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestFolder_StaysWhereAsked(t *testing.T) {
	t.Parallel()
	x := setup(t, func(c *Config) { c.KeepWorkDir = true })
	task := shell("echo kept > file; pwd")
	x.run(t, task)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(strings.TrimSpace(stdout(task)) + "/file"); string(text) != "kept\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestSession_SweepsOnlyWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	x := setup(t)
	old := x.dir + "/session-old"
	if err := os.MkdirAll(old+"/41.load.1.1/data", 0o700); err != nil {
		t.Fatal(err)
	}
	second := setup(t, func(c *Config) { c.Dir = x.dir })
	if _, err := os.Stat(old); err == nil {
		t.Error("the folder of an executor that is gone is still there")
	}
	for _, b := range []*testBundle{x, second} {
		if got := b.run(t, shell("true")); got.Kind != dagrun.KindNone {
			t.Errorf("got %+v", got)
		}
	}
	if lock := lockFolder(x.work.path); lock != nil {
		t.Error("the folder of a living executor is not locked")
	}
}

func TestLimits_ReachTheBody(t *testing.T) {
	t.Parallel()
	x := setup(t, func(c *Config) { c.Resources = Resources{Memory: 64 << 20, PIDs: 50, Nice: 3} })
	task := shell("while [ $(ulimit -p) = unlimited ] || [ $(ulimit -d) = unlimited ]; do :; done; ulimit -d; ulimit -p; nice; (ulimit -d)")
	if got := x.run(t, task); got.Kind != dagrun.KindNone {
		t.Fatalf("got %+v %s", got, stderr(task))
	}
	lines := strings.Fields(stdout(task))
	if len(lines) != 4 || lines[0] != "65536" || lines[1] == "unlimited" || lines[2] != "3" || lines[3] != "65536" {
		t.Errorf("got %v", lines)
	}
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &own); err != nil || own.Cur == 64<<20 {
		t.Errorf("the worker limited itself: %+v, %v", own, err)
	}
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"no folder":   {},
		"nice":        {Dir: t.TempDir(), Resources: Resources{Nice: 20}},
		"memory":      {Dir: t.TempDir(), Resources: Resources{Memory: -1}},
		"cgroup":      {Dir: t.TempDir(), Cgroup: t.TempDir()},
		"deny":        {Dir: t.TempDir(), EnvDeny: []string{"["}},
		"commands":    {Dir: t.TempDir(), Allow: []string{"ls"}},
		"variable":    {Dir: t.TempDir(), WorkerVariable: "A="},
		"environment": {Dir: t.TempDir(), Env: map[string]string{"A": "\x00"}},
		"a file":      {Dir: "/dev/null/x"},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
