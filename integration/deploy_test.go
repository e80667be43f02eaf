package integration

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/migrations"
)

// Deployment files are checked with the real program: its commands, settings and ports, and the time that it needs to
// stop.

// defaultGrace is the time between TERM and KILL for a step without a setting of its own.
const defaultGrace = 10 * time.Second

// deployed is a container or unit that runs oarlock.
type deployed struct {
	where string
	args  []string
	env   map[string]string
}

// check checks a container or unit with the program.
func (d deployed) check(t *testing.T) {
	t.Helper()
	var words []string
	for _, arg := range d.args {
		if !strings.HasPrefix(arg, "-") {
			words = append(words, arg)
		}
	}
	help, err := exec.Command(program, append(slices.Clone(words), "--help")...).Output()
	if err != nil || !bytes.Contains(help, []byte("oarlock "+strings.Join(words, " "))) {
		t.Errorf("%s: `oarlock %s` is no command: %v", d.where, strings.Join(words, " "), err)
	}
	for _, arg := range d.args {
		if flag, _, _ := strings.Cut(arg, "="); strings.HasPrefix(flag, "-") && !bytes.Contains(help, []byte(flag+" ")) {
			t.Errorf("%s: oarlock %s has no %s", d.where, words, arg)
		}
	}
	known := settingsOf(t)
	for name := range d.env {
		if key, ours := strings.CutPrefix(name, "OARLOCK_"); ours && !slices.Contains(known, strings.ToLower(key)) {
			t.Errorf("%s: %s is no setting", d.where, name)
		}
	}
	d.accepted(t)
}

// accepted makes the program read the settings. Values that name secrets or fields of a cluster stay as they are.
func (d deployed) accepted(t *testing.T) {
	t.Helper()
	cmd := exec.Command(program, "config", "show")
	cmd.Env = []string{"HOME=" + t.TempDir()}
	for name, value := range d.env {
		if value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: its settings are refused: %v\n%s", d.where, err, out)
	}
}

// settingsOf returns the settings that the program knows.
func settingsOf(t *testing.T) (names []string) {
	t.Helper()
	cmd := exec.Command(program, "config", "show", "-o", "id")
	cmd.Env = []string{"HOME=" + t.TempDir()}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the settings: %v", err)
	}
	names = strings.Fields(string(out))
	if len(names) < 20 || !slices.Contains(names, "drain_timeout") {
		t.Fatalf("settings: %q", names)
	}
	return names
}

// drain returns how long a worker may take to stop, with these settings.
func (d deployed) drain(t *testing.T) time.Duration {
	t.Helper()
	drain, err := time.ParseDuration(d.env["OARLOCK_DRAIN_TIMEOUT"])
	if err != nil {
		t.Fatalf("%s says no drain timeout: %v", d.where, err)
	}
	return drain + defaultGrace
}

func (d deployed) port(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(d.env["OARLOCK_LISTEN"])
	if err != nil {
		t.Fatalf("%s: OARLOCK_LISTEN: %v", d.where, err)
	}
	return port
}

// pinned matches an image of one minor version.
var pinned = regexp.MustCompile(`^[a-z]+:\d+\.\d+-`)

type composeService struct {
	Image, Build  string
	PullPolicy    string `yaml:"pull_policy"`
	Init          bool
	Entrypoint    []string
	Command       []string
	Environment   map[string]string
	Ports         []string
	Volumes       []string
	ContainerName string `yaml:"container_name"`
	Restart       string
	StopGrace     string   `yaml:"stop_grace_period"`
	CapDrop       []string `yaml:"cap_drop"`
	Healthcheck   struct{ Test []string }
	DependsOn     map[string]struct{ Condition string } `yaml:"depends_on"`
}

type composeFile struct {
	Services map[string]composeService
	Volumes  map[string]any
}

func readCompose(t *testing.T) (f composeFile) {
	t.Helper()
	text, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDeploy_ComposeFitsTheProgram(t *testing.T) {
	t.Parallel()
	f := readCompose(t)
	var built []string
	for name, s := range f.Services {
		ours := s.Image == "oarlock:local"
		if s.Build != "" {
			built = append(built, name)
		}
		if !s.Init && !ours { // ours has tini
			t.Errorf("%s has no init", name)
		}
		if !ours && !pinned.MatchString(s.Image) {
			t.Errorf("%s: the image %s is not pinned to a minor version", name, s.Image)
		}
		if ours && (s.PullPolicy != "never" || !slices.Contains(s.CapDrop, "ALL")) {
			t.Errorf("%s is pulled from somewhere, or has capabilities", name)
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s can be reached from outside: %s", name, port)
			}
		}
		if name != "postgres" && name != "migrate" && name != "logins" && strings.Contains(fmt.Sprint(s.Environment), "POSTGRES_PASSWORD") {
			t.Errorf("%s is a superuser", name)
		}
	}
	if !slices.Equal(built, []string{"migrate"}) {
		t.Errorf("%v build the image, want the one service that all others wait for", built)
	}
	if waits := f.Services["cli"].DependsOn; len(waits) > 0 {
		t.Errorf("each command starts %v once more", waits)
	}
	if prune := f.Services["prune"]; !strings.Contains(strings.Join(prune.Command, " "), "oarlock prune") || prune.Restart != "unless-stopped" {
		t.Error("nothing deletes what is past its retention")
	} else {
		deployed{"prune", []string{"prune"}, prune.Environment}.check(t)
	}
	order := []string{"postgres", "migrate", "logins", "worker"}
	for i, name := range order[1:] {
		want := "service_completed_successfully"
		if i == 0 {
			want = "service_healthy"
		}
		if got := f.Services[name].DependsOn[order[i]].Condition; got != want {
			t.Errorf("%s waits for %s by %q, want %q", name, order[i], got, want)
		}
	}
	if ready := strings.Join(f.Services["postgres"].Healthcheck.Test, " "); !strings.Contains(ready, "--host 127.0.0.1") {
		t.Errorf("the first start of the image answers its own socket, and so does this health check: %s", ready)
	}
	if up := strings.Join(f.Services["migrate"].Command, " "); !strings.Contains(up, "migrate up --wait=") {
		t.Errorf("a server that stops once more after its first start fails the migration: %s", up)
	}
	if len(f.Services["postgres"].Healthcheck.Test) == 0 || !slices.ContainsFunc(f.Services["postgres"].Volumes, func(v string) bool {
		name, _, _ := strings.Cut(v, ":")
		_, named := f.Volumes[name]
		return named
	}) {
		t.Error("postgres has no health check, or no named volume")
	}
	for _, words := range strings.Split(strings.Join(f.Services["migrate"].Command, " "), " && ") {
		deployed{"migrate", strings.Fields(words)[1:], f.Services["migrate"].Environment}.check(t)
	}
}

func TestDeploy_ComposeWorkersScale(t *testing.T) {
	t.Parallel()
	w := readCompose(t).Services["worker"]
	d := deployed{"worker", []string{"worker"}, w.Environment}
	d.check(t)
	if w.ContainerName != "" || len(w.Ports) > 0 {
		t.Error("a worker with a fixed name or port cannot be scaled")
	}
	if grace, err := time.ParseDuration(w.StopGrace); err != nil || grace <= d.drain(t) {
		t.Errorf("a worker is killed after %q, and may take %v", w.StopGrace, d.drain(t))
	}
	if probe := strings.Join(w.Healthcheck.Test, " "); !strings.Contains(probe, "/"+d.port(t)) {
		t.Errorf("the health check asks somewhere else: %s", probe)
	}
}

func TestDeploy_PagesAreForPeopleWhoSignIn(t *testing.T) {
	t.Parallel()
	service := readCompose(t).Services["web"]
	pod := deployedObjects(t)["Deployment oarlock-web"].Spec.Template.Spec.Containers[0]
	unit := environment(unit(t, "oarlock-web.service"))
	deployed{"web", service.Command, service.Environment}.check(t)
	for where, env := range map[string]map[string]string{"compose": service.Environment, "Kubernetes": pod.deployed("web").env, "systemd": unit} {
		if env["OARLOCK_WEB_AUTH"] != "postgres" {
			t.Errorf("%s: everybody who reaches the pages sees them", where)
		}
	}
}

// The health check is a command of the image's shell. Here it asks a real worker.
func TestDeploy_HealthCheckOfComposeTellsAWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash, which the image has")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	_, port, _ := net.SplitHostPort(addr)
	test := readCompose(t).Services["worker"].Healthcheck.Test
	probe := strings.ReplaceAll(strings.ReplaceAll(test[3], "$$", "$"), "/9465", "/"+port)
	healthy := func() bool { return exec.Command(test[1], test[2], probe).Run() == nil }
	if healthy() {
		t.Fatal("it finds a worker where none is")
	}
	b.worker(t, "w1", "listen="+addr)
	until(t, "the health check finds the worker", healthy)
}

func TestDeploy_LoginsAreWhatTheirRolesAre(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("wants a server")
	}
	if out, err := exec.Command("psql", "--version").Output(); err != nil || !newPsql(string(out)) {
		t.Skip("no psql 15 or newer")
	}
	_, node := setupOn(t, nil) // roles belong to a server
	if err := migrations.Roles(t.Context(), node.URL()); err != nil {
		t.Fatal(err)
	}
	passwords := []string{
		"OARLOCK_WORKER_PASSWORD=it's one", "OARLOCK_OPERATOR_PASSWORD=another", "OARLOCK_SUBMITTER_PASSWORD=a third",
		"OARLOCK_APPROVER_PASSWORD=a fifth", "OARLOCK_READER_PASSWORD=a fourth",
	}
	out, err := makeLogins(node.URL(), passwords[:3])
	if lacks := "the environment lacks OARLOCK_APPROVER_PASSWORD, OARLOCK_READER_PASSWORD: "; err == nil || !strings.Contains(out, lacks) {
		t.Errorf("without two of its passwords: %v, %s", err, out)
	}
	for range 2 { // it may run again
		if out, err := makeLogins(node.URL(), passwords); err != nil || out != "" {
			t.Fatalf("%v: %s", err, out)
		}
	}
	b := newTestBundle(t, &pgtest.DB{URL: node.URL()}, as(t, node.URL(), "oarlock_app_worker", "it's one"))
	b.worker(t, "w1")
	b.driver(t, "w1")
	operator := *b
	operator.url = as(t, node.URL(), "oarlock_app_operator", "another")
	if out := operator.oarlock(t, "dag", "apply", filepath.Join("..", "examples", "first", "hello.yaml")); !strings.Contains(out, "hello") {
		t.Errorf("an operator cannot apply a DAG: %s", out)
	}
	application := *b
	application.url = as(t, node.URL(), "oarlock_app_submitter", "a third")
	if out := application.oarlock(t, "enqueue", "hello", "--wait"); !strings.Contains(out, "succeeded") {
		t.Errorf("its run: %s", out)
	}
	var wanted int
	hint := deployedObjects(t)["ScaledObject oarlock-worker"].Spec.Triggers[0].Metadata["query"]
	reader, err := pgx.Connect(t.Context(), as(t, node.URL(), "oarlock_app_reader", "a fourth"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close(context.WithoutCancel(t.Context()))
	if err := reader.QueryRow(t.Context(), hint).Scan(&wanted); err != nil {
		t.Errorf("a reader cannot ask what KEDA asks: %v", err)
	}
	approver := *b
	approver.url = as(t, node.URL(), "oarlock_app_approver", "a fifth")
	if out := approver.oarlock(t, "approvals"); strings.Contains(out, "oarlock approve") {
		t.Errorf("it has something to decide: %s", out)
	}
	operator.oarlock(t, "prune")
}

// makeLogins runs deploy/logins.sql as a superuser with these passwords.
func makeLogins(database string, passwords []string) (out string, err error) {
	logins := exec.Command("psql", "--no-psqlrc", "--quiet", "--file", "../deploy/logins.sql", database)
	logins.Env = append(os.Environ(), passwords...)
	said, err := logins.CombinedOutput()
	return string(said), err
}

var psqlMajor = regexp.MustCompile(`\) (\d+)`)

func newPsql(version string) bool {
	m := psqlMajor.FindStringSubmatch(version)
	return m != nil && len(m[1]) == 2 && m[1] >= "15"
}

func as(t *testing.T, databaseURL, user, password string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

func TestDeploy_PasswordsAreNewEachTime(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`^[A-Z_]+=[0-9a-f]{48}$`)
	wanted := map[string]bool{}
	for _, m := range regexp.MustCompile(`\$\{([A-Z_]+):\?`).FindAllStringSubmatch(read(t, "../compose.yaml"), -1) {
		wanted[m[1]] = true
	}
	seen := map[string]bool{}
	for range 2 {
		out, err := exec.Command("../deploy/passwords").Output()
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(out)) {
			l = strings.TrimSuffix(l, "\n")
			name, value, _ := strings.Cut(l, "=")
			if !line.MatchString(l) || seen[value] || !wanted[name] {
				t.Errorf("%q: not of its form, there before, or not wanted", l)
			}
			seen[value] = true
		}
	}
	if len(seen) != 2*len(wanted) || len(wanted) != 6 {
		t.Errorf("%d passwords for %v", len(seen)/2, wanted)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDeploy_DockerfileMakesASmallUnprivilegedImage(t *testing.T) {
	t.Parallel()
	text := read(t, "../Dockerfile")
	stages := strings.Split(text, "\nFROM ")
	if len(stages) != 3 {
		t.Fatalf("%d stages, want one that builds and one that is", len(stages)-1)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))[1]
	for where, wants := range map[int][]string{
		1: {"golang:" + version + "-", "CGO_ENABLED=0 go build -trimpath", "go mod download"},
		2: {"debian:", "-slim", "tini", "ca-certificates", "curl", "\nUSER 10001:10001\n", "\nENTRYPOINT [\"/usr/bin/tini\", \"--\", \"oarlock\"]\n", "\nCMD [\"worker\"]\n"},
	} {
		for _, want := range wants {
			if !strings.Contains(stages[where], want) {
				t.Errorf("stage %d has no %q", where, want)
			}
		}
	}
	if strings.Contains(stages[2], "go build") {
		t.Error("the last stage builds")
	}
}

// unit reads a systemd unit and returns the values of each key.
func unit(t *testing.T, name string) map[string][]string {
	t.Helper()
	keys := map[string][]string{}
	for line := range strings.Lines(read(t, filepath.Join("..", "deploy", "systemd", name))) {
		line = strings.TrimSpace(line)
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			keys[key] = append(keys[key], value)
		}
	}
	return keys
}

func TestDeploy_SystemdUnitsFitTheProgram(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("../deploy/systemd/*.service")
	if len(files) != 4 {
		t.Fatalf("units: %v", files)
	}
	for _, file := range files {
		name := filepath.Base(file)
		keys := unit(t, name)
		for _, line := range keys["ExecStart"] {
			words := strings.Fields(line)
			if words[0] != "/usr/local/bin/oarlock" {
				t.Errorf("%s starts %s", name, words[0])
			}
			args := slices.DeleteFunc(words[1:], func(w string) bool { return strings.Contains(w, "%") })
			deployed{name, args, environment(keys)}.check(t)
		}
	}
	keys := unit(t, "oarlock-worker@.service")
	for key, want := range map[string]string{
		"Type": "notify", "NotifyAccess": "all", "KillMode": "mixed", "Delegate": "yes", "User": "oarlock", "Restart": "on-failure",
	} {
		if got := strings.Join(keys[key], " "); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	stop, err := time.ParseDuration(strings.Join(keys["TimeoutStopSec"], "") + "s")
	worker := deployed{"the unit", nil, environment(keys)}
	if err != nil || stop <= worker.drain(t) {
		t.Errorf("a worker is killed after %v, and may take %v", stop, worker.drain(t))
	}
	watchdog, err := time.ParseDuration(strings.Join(keys["WatchdogSec"], "") + "s")
	if err != nil || watchdog < time.Minute {
		t.Errorf("the watchdog of %v fires while the guard replaces a driver process", watchdog)
	}
	if unit(t, "oarlock-prune.timer")["OnCalendar"] == nil {
		t.Error("nothing starts the prune")
	}
}

func environment(keys map[string][]string) map[string]string {
	env := map[string]string{}
	for _, line := range keys["Environment"] {
		for _, word := range strings.Fields(line) {
			name, value, _ := strings.Cut(word, "=")
			env[name] = value
		}
	}
	return env
}
