package exec

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/worker"
)

// printed runs a body that prints its environment, and returns the environment.
func printed(t *testing.T, x *testBundle, task *worker.Task) map[string]string {
	t.Helper()
	task.Body = &dagspec.Step{Command: "/usr/bin/env", Args: dagspec.Args{List: []string{"-0"}}, Outputs: task.Body.Outputs}
	task.Resolved.Args = []string{"-0"}
	if got := x.run(t, task); got.Kind != dagrun.KindNone {
		t.Fatalf("got %+v: %s", got, stderr(task))
	}
	env := map[string]string{}
	for entry := range strings.SplitSeq(strings.TrimSuffix(stdout(task), "\x00"), "\x00") {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

func TestEnvironment_APublishFindsTheNumberOfItsTry(t *testing.T) {
	t.Parallel()
	x := setup(t)
	body := shell("")
	if got, ok := printed(t, x, body)["OARLOCK_PUBLISH_TRY"]; ok {
		t.Errorf("a body that is no publish finds %q", got)
	}
	publish := shell("")
	publish.Publish, publish.PublishTry = true, 3
	if got := printed(t, x, publish)["OARLOCK_PUBLISH_TRY"]; got != "3" {
		t.Errorf("a publish finds %q", got)
	}
}

func TestEnvironment_LaterLayersWin(t *testing.T) {
	t.Parallel()
	x := setup(t, func(c *Config) {
		c.Environ = []string{"A=inherited", "B=inherited", "C=inherited", "OARLOCK_URL=x", "PATH=/usr/bin:/bin", "EMPTY="}
		c.Env = map[string]string{"B": "worker", "C": "worker", "D": "worker", "MY_TOKEN": "the worker's own is not filtered"}
		c.WorkerVariable = "OARLOCK_WORKER_ID"
	})
	x.worker = "w1"
	task := shell("")
	task.Resolved.Env = map[string]string{"C": "step", "PARAM_DAY": "step", "OARLOCK_RUN_ID": "step", "OARLOCK_WORKER_ID": "step", "pass": "step"}
	task.Secrets = map[string]string{"pass": "s3cret"}
	task.Params = map[string]any{"day": "2026-11-20", "n": int64(9007199254740993), "f": 0.5, "b": true, "j": map[string]any{"a": []any{int64(1)}}, "none": nil}
	env := printed(t, x, task)
	for name, want := range map[string]string{
		"A": "inherited", "B": "worker", "C": "step", "D": "worker", "EMPTY": "", "MY_TOKEN": "the worker's own is not filtered",
		"pass": "s3cret", "PARAM_DAY": "2026-11-20", "PARAM_N": "9007199254740993", "PARAM_F": "0.5", "PARAM_B": "true", "PARAM_J": `{"a":[1]}`,
		"OARLOCK_RUN_ID": "41", "OARLOCK_RUN_UID": "u41", "OARLOCK_DAG": "etl", "OARLOCK_STEP": "load", "OARLOCK_ITEM": "", "OARLOCK_ATTEMPT": "1",
		"OARLOCK_FENCE": "7", "OARLOCK_IDEMPOTENCY_KEY": "41/load/1", "OARLOCK_WORKER_ID": "w1",
	} {
		if got, ok := env[name]; !ok || got != want {
			t.Errorf("%s is %q (%v), want %q", name, got, ok, want)
		}
	}
	if id := env["OARLOCK_BODY_ID"]; !strings.HasPrefix(id, x.prefix) || !strings.HasSuffix(id, "-u41") {
		t.Errorf("the body's id is %q: it does not end with the run's", id)
	}
	for _, name := range []string{"PARAM_NONE", "OARLOCK_URL", "OARLOCK_SOURCE_DIR", "OARLOCK_RUN_STATE", "OARLOCK_FAILED_STEPS"} {
		if value, ok := env[name]; ok {
			t.Errorf("%s is there: %q", name, value)
		}
	}
}

func TestEnvironment_InheritsNothingUnlessTold(t *testing.T) {
	t.Parallel()
	x := setup(t, func(c *Config) { c.EnvInherit = false })
	env := printed(t, x, shell(""))
	for name := range env {
		if !strings.HasPrefix(name, "OARLOCK_") && name != "PWD" {
			t.Errorf("%s is there", name)
		}
	}
	if _, ok := x.LookupEnv("PATH"); ok {
		t.Error("PATH can be referred to")
	}
}

func TestEnvironment_TellsHandlersAndWhereTheFileIs(t *testing.T) {
	t.Parallel()
	task := shell("")
	task.Source, task.RunState, task.Failed = "/etc/dags", "failed", []string{"load", `a"b`}
	env := printed(t, setup(t), task)
	if env["OARLOCK_SOURCE_DIR"] != "/etc/dags" || env["OARLOCK_RUN_STATE"] != "failed" || env["OARLOCK_FAILED_STEPS"] != `["load","a\"b"]` {
		t.Errorf("got %v", env)
	}
	task = shell("")
	task.RunState = "succeeded"
	if env := printed(t, setup(t), task); env["OARLOCK_FAILED_STEPS"] != "[]" {
		t.Errorf("nothing failed: %q", env["OARLOCK_FAILED_STEPS"])
	}
}

func TestEnvironment_TellsTheTimeTheRunIsAbout(t *testing.T) {
	t.Parallel()
	task := shell("")
	task.LogicalAt = time.Date(2026, 11, 20, 3, 30, 0, 0, time.FixedZone("", 3600))
	env := printed(t, setup(t), task)
	if got := env["OARLOCK_LOGICAL_AT"]; got != "2026-11-20T02:30:00Z" {
		t.Errorf("the time is %q", got)
	}
	for _, name := range []string{"OARLOCK_SCHEDULE", "OARLOCK_PREVIOUS_LOGICAL_AT"} {
		if value, ok := env[name]; ok {
			t.Errorf("no schedule made the run: %s is %q", name, value)
		}
	}
	task = shell("")
	task.LogicalAt = time.Date(2026, 11, 20, 2, 30, 0, 0, time.UTC)
	task.Schedule, task.PreviousLogicalAt = "30 3 * * 1-5", task.LogicalAt.Add(-24*time.Hour)
	env = printed(t, setup(t), task)
	if env["OARLOCK_SCHEDULE"] != "30 3 * * 1-5" || env["OARLOCK_PREVIOUS_LOGICAL_AT"] != "2026-11-19T02:30:00Z" {
		t.Errorf("got %v", env)
	}
}

func TestEnvironment_LongValuesTravelByFile(t *testing.T) {
	t.Parallel()
	long, edge := strings.Repeat("x", maxValueBytes+1), strings.Repeat("y", maxValueBytes)
	task := shell(`cat "$LONG_FILE" && printf "|$EDGE|${LONG-unset}|" && cat "$PARAM_DOC_FILE"`)
	task.Resolved.Env = map[string]string{"LONG": long, "EDGE": edge}
	task.Params = map[string]any{"doc": long}
	if got := setup(t).run(t, task); got.Kind != dagrun.KindNone || stdout(task) != long+"|"+edge+"|unset|"+long {
		t.Errorf("got %+v and %d bytes: %s", got, len(stdout(task)), stderr(task))
	}
}

func TestEnvironment_RefusesWhatNoProcessCanHave(t *testing.T) {
	t.Parallel()
	x := setup(t)
	for name, value := range map[string]string{"A": "x\x00y", "A=B": "x", "": "x"} {
		task := shell("true")
		task.Resolved.Env = map[string]string{name: value}
		if got := x.run(t, task); got.Kind != dagrun.KindConfig {
			t.Errorf("%q=%q: got %+v", name, value, got)
		}
	}
}

func TestDenyList_HidesWhatLooksLikeASecret(t *testing.T) {
	t.Parallel()
	standard, err := ParseDenyList(StandardDenyList)
	if err != nil {
		t.Fatal(err)
	}
	for entry, want := range map[string]bool{
		"HOME=/root": false, "PATH=/bin": false, "LANG=C": false, "KEY=v": false, "KEYBOARD=us": false, "PAGER=less": false,
		"OARLOCK_DATABASE=x": true, "oarlock_x=1": true, "DATABASE_URL=x": true, "MY_DATABASE_URL=x": false, "PGHOST=h": true, "PG=1": true, "pgpass=x": true,
		"DB_PASSWORD=x": true, "PASSWORD_FILE=x": true, "MySecretThing=x": true, "GITHUB_TOKEN=x": true, "api_key=x": true, "SENTRY_DSN=x": true,
		"GOOGLE_APPLICATION_CREDENTIALS=x": true, "AWS_REGION=x": true, "KUBERNETES_PORT=x": true, "SSH_AUTH_SOCK=x": true, "TMOUT=1": true,
		"MYSQL_PWD=x": true, "GITHUB_PAT=x": true, "PASSPHRASE=x": true, "MY_APIKEY=x": true, "DB_PASSWD=x": true, "SSHPASS=x": true, "PWD=/x": false,
		"OLDPWD=/x": false, "GIT_AUTHOR_NAME=x": false, "npm_config__auth=x": true, "ALIBABA_ACCESS_KEY_ID=x": true, "GCP_CREDS=x": true, "X_PATH=/x": false,
		"DOCKER_AUTH_CONFIG=x": true, "SLACK_WEBHOOK_URL=x": true, "SESSION_JWT=x": true, "DISPLAY=:0": false, "TERM=xterm": false, "PATTERN=x": false,
		"BASH_ENV=x": true, "NOTIFY_SOCKET=x": true, "WATCHDOG_PID=1": true, "LD_PRELOAD=x": true, "LD_LIBRARY_PATH=x": false,
		"X=postgres://u:p@h/db": true, "X=see postgresql://u:p@h:5432/db?x=1 there": true, "X=redis://:p@h": true, "X=https://token@github.com/x": true,
		"X=HTTP://A:B@C": true, "X=postgres://h/db": false, "X=https://example.com/a@b": false, "X=ssh://git@example.com/x": false,
		"X=https://example.com:8080/x": false, "X=u:p@h": false, "X=amqp://u:p%40@h/v": true,
	} {
		name, value, _ := strings.Cut(entry, "=")
		if got := standard.Denies(name, value); got != want {
			t.Errorf("%s: %v, want %v", entry, got, want)
		}
	}
	all, _ := ParseDenyList([]string{})
	if all.Denies("DATABASE_URL", "postgres://u:p@h/db") {
		t.Error("an empty list trusts all")
	}
	own, _ := ParseDenyList([]string{"X?Y"})
	if !own.Denies("xzy", "") || own.Denies("XY", "") || own.Denies("PGHOST", "h") || !own.Denies("A", "a://u:p@h") {
		t.Error("a list of one's own replaces the names; URLs stay")
	}
	for _, wrong := range []string{"", "[a"} {
		if _, err := ParseDenyList([]string{wrong}); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestPrograms_AreMatchedOnWhereTheyReallyAre(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, d := range []string{"good", "bad"} {
		if err := os.Mkdir(dir+"/"+d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+d+"/tool", nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"good/to-bad": "bad/tool", "bad/to-good": "good/tool", "linked": "good"} {
		if err := os.Symlink(dir+"/"+to, dir+"/"+from); err != nil {
			t.Fatal(err)
		}
	}
	good, bad := []string{dir + "/good/*"}, []string{dir + "/bad/*"}
	for _, tt := range []struct {
		allow, deny []string
		file        string
		want        bool
	}{
		{nil, nil, "bad/tool", true},
		{good, nil, "good/tool", true},
		{good, nil, "bad/tool", false},
		{good, nil, "good/to-bad", false},
		{good, nil, "bad/to-good", true},
		{nil, bad, "bad/tool", false},
		{nil, bad, "good/to-bad", false},
		{nil, bad, "good/../bad/tool", false},
		{nil, bad, "good/tool", true},
		{good, good, "good/tool", false},
		{[]string{dir + "/linked/tool"}, nil, "good/tool", true},
		{[]string{dir + "/linked/*"}, nil, "good/tool", true},
		{[]string{dir + "/bad/to-good"}, nil, "good/tool", true},
	} {
		p, err := parsePrograms(tt.allow, tt.deny)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.check(dir + "/" + tt.file); (err == nil) != tt.want {
			t.Errorf("allow %v deny %v: %s: %v", tt.allow, tt.deny, tt.file, err)
		}
	}
	for _, wrong := range []string{"", "ls", "/[a", "*"} {
		if _, err := parsePrograms(nil, []string{wrong}); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestFindProgram_SearchesTheBodysPath(t *testing.T) {
	t.Parallel()
	x := setup(t)
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/my-tool", []byte("#!/bin/sh\necho mine\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	task := task(dagspec.Step{Command: "my-tool"})
	if got := x.run(t, task); got.Kind != dagrun.KindSpawn {
		t.Fatalf("got %+v", got)
	}
	task.Resolved.Env["PATH"] = ":.:" + dir
	if got := x.run(t, task); got.Kind != dagrun.KindNone || stdout(task) != "mine\n" {
		t.Fatalf("got %+v", got)
	}
	task.Resolved.Env["PATH"], task.Body.WorkingDir = ":.:", dir
	if got := x.run(t, task); got.Kind != dagrun.KindSpawn {
		t.Errorf("the working folder is searched: %+v", got)
	}
	task.Body.Command = "./my-tool"
	if got := x.run(t, task); got.Kind != dagrun.KindNone {
		t.Errorf("a relative command counts from the working folder: %+v", got)
	}
	if !slices.Equal(StandardShell, []string{"/bin/sh", "-eu"}) {
		t.Errorf("the standard shell became %v", StandardShell)
	}
}

func TestEnvironment_KeepsBackWhatIsNamedAsASecret(t *testing.T) {
	t.Parallel()
	environ := []string{"SHOP_CODE=hunter2", "SHOP_ID=hunter2", "ORDINARY=hunter2", "PLAIN=x", "PATH=/usr/bin:/bin"}
	for _, tt := range []struct {
		deny, secrets []string
		want          string
	}{
		{nil, []string{"SHOP_*"}, "ORDINARY PATH PLAIN"},
		{[]string{"PLAIN"}, []string{"SHOP_*"}, "ORDINARY PATH"},
		{nil, nil, "ORDINARY PATH PLAIN SHOP_CODE SHOP_ID"},
		{nil, []string{"*"}, "ORDINARY PATH PLAIN SHOP_CODE SHOP_ID"},
		{[]string{}, []string{"SHOP_*"}, "ORDINARY PATH PLAIN SHOP_CODE SHOP_ID"},
	} {
		x := setup(t, func(c *Config) { c.Environ, c.EnvDeny, c.EnvSecrets = environ, tt.deny, tt.secrets })
		if got := strings.Join(slices.Sorted(maps.Keys(x.base)), " "); got != tt.want {
			t.Errorf("deny %v, secrets %v: %s, want %s", tt.deny, tt.secrets, got, tt.want)
		}
	}
	x := setup(t, func(c *Config) { c.Environ = environ })
	task := shell("")
	task.Resolved.Declared = []dagspec.Secret{{Name: "s", From: "env", Key: "ORDINARY"}, {Name: "PLAIN", From: "file", Key: "/PLAIN"}}
	env := printed(t, x, task)
	if _, ok := env["ORDINARY"]; ok || env["PLAIN"] != "x" {
		t.Errorf("what the DAG names as a secret is inherited: %v", env)
	}
}

func TestEnvironment_CarriesTheTrace(t *testing.T) {
	t.Parallel()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	x := setup(t, func(c *Config) { c.Environ = []string{"TRACEPARENT=of the worker", "PATH=/usr/bin:/bin"} })
	task := shell("")
	task.Traceparent = trace
	if got := printed(t, x, task)["TRACEPARENT"]; got != trace {
		t.Errorf("TRACEPARENT is %q", got)
	}
	task = shell("")
	task.Traceparent, task.Resolved.Env["TRACEPARENT"] = trace, "the step's"
	if got := printed(t, x, task)["TRACEPARENT"]; got != "the step's" {
		t.Errorf("the step's own is %q", got)
	}
}

// Where only certain programs may be started, no variable of a DAG may have them start others.
func TestEnvironment_SetsNoLoaderVariableWhereCommandsAreListed(t *testing.T) {
	t.Parallel()
	listed := setup(t, func(c *Config) {
		c.Allow, c.Env = []string{"/usr/bin/env"}, map[string]string{"LD_LIBRARY_PATH": "/of/the/worker"}
	})
	free := setup(t)
	for _, name := range []string{
		"LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "GLIBC_TUNABLES", "DYLD_INSERT_LIBRARIES", "GCONV_PATH", "BASH_ENV", "ENV", "IFS", "PATH", "HOME",
		"PYTHONPATH", "PYTHONSTARTUP", "PERL5OPT", "PERL5LIB", "RUBYOPT", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS",
		"GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "SHELLOPTS", "PS4", "TAR_OPTIONS", "LESSOPEN", "KUBECONFIG",
	} {
		for _, set := range []func(*worker.Task){
			func(t *worker.Task) { t.Resolved.Env[name] = "/usr/bin" },
			func(t *worker.Task) { t.Secrets = map[string]string{name: "/usr/bin"} },
		} {
			task := task(dagspec.Step{Command: "/usr/bin/env"})
			set(task)
			if got := listed.run(t, task); got.Kind != dagrun.KindConfig || !strings.Contains(got.Reason, name) || !strings.Contains(got.Reason, "command_allow") {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if name == "LD_PRELOAD" || name == "LD_AUDIT" {
			continue
		}
		free1 := task(dagspec.Step{Command: "/usr/bin/env"})
		free1.Resolved.Env[name] = ""
		if got := free.run(t, free1); got.Kind != dagrun.KindNone {
			t.Errorf("%s without command_allow: %+v", name, got)
		}
	}
	ordinary := task(dagspec.Step{Command: "/usr/bin/env"})
	ordinary.Resolved.Env = map[string]string{"LANG": "C", "GIT_AUTHOR_NAME": "x", "PYTHONUNBUFFERED": "1", "PGPASSWORD": "x", "TZ": "UTC", "MY_PATH": "x"}
	ordinary.Params = map[string]any{"ld_preload": "x"}
	if got := listed.run(t, ordinary); got.Kind != dagrun.KindNone || !strings.Contains(stdout(ordinary), "LD_LIBRARY_PATH=/of/the/worker") {
		t.Errorf("ordinary variables: %+v: %s", got, stdout(ordinary))
	}
}

// A long value is passed as a file, and the variable that names the file may be a loader variable.
func TestEnvironment_SetsNoLoaderVariableByALongValue(t *testing.T) {
	t.Parallel()
	x := setup(t, func(c *Config) { c.Allow = []string{"/usr/bin/env"} })
	long := strings.Repeat("x", maxValueBytes+1)
	for name, kind := range map[string]dagrun.FailureKind{"AWS_CONFIG": dagrun.KindConfig, "NOTES": dagrun.KindNone} {
		task := task(dagspec.Step{Command: "/usr/bin/env"})
		task.Resolved.Env = map[string]string{name: long}
		if got := x.run(t, task); got.Kind != kind {
			t.Errorf("a long %s: %+v", name, got)
		}
	}
}

func TestShell_MayBeAnInterpreterWithItsFlag(t *testing.T) {
	t.Parallel()
	x := setup(t)
	for _, tt := range []struct {
		shell []string
		run   string
	}{
		{[]string{"python3", "-c"}, "print('ok')"},
		{[]string{"python3"}, "print('ok')"},
		{[]string{"perl", "-e"}, "print qq(ok\\n)"},
		{[]string{"/bin/bash", "-euo", "pipefail", "-c"}, "[[ a == a ]] && echo ok"},
		{[]string{"/bin/bash", "-ec"}, "echo ok; false; echo no"},
		{[]string{"/bin/sh", "-c"}, "echo ok #" + strings.Repeat("x", maxTextArg)},
	} {
		if _, err := exec.LookPath(tt.shell[0]); err != nil {
			t.Logf("no %s here", tt.shell[0])
			continue
		}
		task := shell(tt.run)
		task.Body.Shell = tt.shell
		if x.run(t, task); stdout(task) != "ok\n" {
			t.Errorf("%v: %q, %s", tt.shell, stdout(task), stderr(task))
		}
	}
	task := shell("false | true")
	task.Body.Shell = []string{"/bin/bash", "-euo", "pipefail"}
	if got := x.run(t, task); got.ExitCode != 1 {
		t.Errorf("pipefail: %+v", got)
	}
}
