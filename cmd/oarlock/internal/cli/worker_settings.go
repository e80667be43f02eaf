package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker/action/http"
	"github.com/oarlock-dev/oarlock/worker/embed"
	"github.com/oarlock-dev/oarlock/worker/exec"
	"github.com/oarlock-dev/oarlock/worker/health"
	"github.com/oarlock-dev/oarlock/worker/logship"
	"github.com/oarlock-dev/oarlock/worker/metrics"
	"github.com/oarlock-dev/oarlock/worker/supervise"
)

// workerKeys declares the settings of workers. They have flags of the worker command.
func workerKeys() []config.Key {
	keys := []config.Key{
		{Name: "name", Implied: hostName(), Flag: "--name", Check: supervise.CheckName, Usage: "be known as `NAME`, one at a time in a state folder; the host's name if none is given"},
		{Name: "slots", Flag: "--slots", Default: "8", Check: aCount, Usage: "run `N` tasks at once"},
		{Name: "queues", Flag: "--queue", Shape: config.List, Usage: "serve queue `NAME`; may be given again; all if none is given"},
		{Name: "labels", Flag: "--label", Shape: config.Map, Usage: "offer label `KEY=VALUE` to the selectors of DAGs; may be given again"},
		{Name: "drain_timeout", Flag: "--drain-timeout", Default: "60s", Check: aDuration, Usage: "let running tasks finish for `TIME` when told to stop"},
		{Name: "poll_only", Flag: "--poll-only", Default: "false", Allowed: []string{"true", "false"}, Usage: "never LISTEN: new runs are seen by the next look"},
		{Name: "direct_url", Show: pglink.Redact, Usage: "Postgres URL past a pooler, for what must know its session"},
		{Name: "lease_ttl", Default: "5m", Check: aLease, Usage: "how long a worker may be silent before others take over"},
		{Name: "heartbeat", Gone: "workers give a sign of life six times in each lease_ttl, and at least every five seconds"},
		{Name: "listen", Flag: "--listen", Check: health.CheckAddr, Usage: "answer /livez, /readyz and /metrics at `HOST:PORT`; nowhere if none is given"},
		{Name: "metrics_per_dag", Default: "false", Allowed: []string{"true", "false"}, Usage: "also count by DAG, up to 200 of them"},
		{Name: "connections", Shape: config.Map, Show: shownConnection, Usage: "databases for postgres.query by name: a URL, env:NAME or file:PATH"},
		{Name: "own_sql", Default: "true", Allowed: []string{"true", "false"}, Usage: "whether postgres.query reaches the worker's own database, with its own role"},
		{Name: "state_dir", Usage: "folder of lock files, work folders and spooled logs"},
		{Name: "keep_workdir", Default: "false", Allowed: []string{"true", "false"}, Usage: "leave the work folders of attempts, to look at"},
		{Name: "local_files", Default: "false", Allowed: []string{"true", "false"}, Usage: "whether DAGs are applied from files of this host: OARLOCK_SOURCE_DIR then names a DAG's folder"},
		{Name: "env", Shape: config.Map, Show: hiddenValue, Check: aVariable, Usage: "variables for every task"},
		{Name: "env_inherit", Default: "true", Allowed: []string{"true", "false"}, Usage: "whether tasks inherit the worker's environment"},
		{Name: "env_deny", Shape: config.List, Implied: exec.StandardDenyList, Check: exec.CheckNameGlob, Usage: "globs of variables that are not inherited; [] trusts all; the standard list if none is given"},
		{Name: "secrets_env", Shape: config.List, Check: exec.CheckNameGlob, Usage: "globs of variables that DAGs may name as secrets; [] allows none; all if none is given"},
		{Name: "secrets_files", Shape: config.List, Check: aFileGlob, Usage: "globs of files that DAGs may name as secrets; [] allows none; all if none is given"},
		{Name: "secrets_command", Shape: config.List, Usage: "program and arguments that print the secret whose key is added as the last one; absolute; none if none is given"},
		{Name: "shell", Shape: config.List, Implied: exec.StandardShell, Usage: "program and arguments that `run:` goes to; /bin/sh -eu if none is given"},
		{Name: "command_allow", Shape: config.List, Check: exec.CheckProgramGlob, Usage: "globs of programs that may be started; all if none is given"},
		{Name: "command_deny", Shape: config.List, Check: exec.CheckProgramGlob, Usage: "globs of programs that may not be started"},
		{Name: "resources", Shape: config.Map, Check: aResource, Usage: "bounds of each command: memory, pids, nice"},
		{Name: "log_limit", Default: "64MiB", Check: aSize, Usage: "bytes of log that are kept of an attempt"},
		{Name: "spool_limit", Default: "1GiB", Check: aSize, Usage: "bytes of log that wait on disk while the database is away"},
		{Name: "http_allow", Shape: config.List, Check: aPrefix, Usage: "addresses (CIDR) that http.request may reach though they are denied"},
		{Name: "http_deny", Shape: config.List, Check: aPrefix, Usage: "addresses (CIDR) that http.request may not reach"},
	}
	for i := range keys {
		keys[i].Env = []string{"OARLOCK_" + strings.ToUpper(keys[i].Name)}
	}
	return keys
}

// hostName returns the default name of workers: the host's.
func hostName() []string {
	name, err := os.Hostname()
	if err != nil {
		return nil
	}
	return []string{name}
}

// keyFlags returns the flags for the settings of a command.
func keyFlags(keys []config.Key) (flags []cli.Flag) {
	for _, k := range keys {
		if k.Flag == "" {
			continue
		}
		name := k.Flag[len("--"):]
		switch {
		case k.Shape != config.Plain:
			flags = append(flags, &cli.StringSliceFlag{Name: name, Usage: k.Usage})
		case slices.Contains(k.Allowed, "true"):
			flags = append(flags, &cli.BoolFlag{Name: name, Usage: k.Usage})
		default:
			flags = append(flags, &cli.StringFlag{Name: name, Usage: usageOf(k), DefaultText: k.Default})
		}
	}
	return flags
}

// usageOf returns the usage of a setting, with the values that it may have.
func usageOf(k config.Key) string {
	if len(k.Allowed) == 0 {
		return k.Usage
	}
	return k.Usage + ": " + config.OrList(k.Allowed)
}

// loadKeys decides the settings again, now with the flags of a command.
func (e *env) loadKeys(c *cli.Context, keys []config.Key) error {
	given := map[string][]string{}
	for _, k := range keys {
		name := strings.TrimPrefix(k.Flag, "--")
		switch {
		case name == "" || !c.IsSet(name):
		case k.Shape != config.Plain:
			given[k.Name] = c.StringSlice(name)
		default:
			given[k.Name] = []string{fmt.Sprint(c.Value(name))}
		}
	}
	return e.decide(given)
}

// rigConfig turns the settings into the configuration of a worker.
func (e *env) rigConfig(ctx context.Context) (embed.Config, error) {
	url, _, err := e.database(ctx)
	if err != nil {
		return embed.Config{}, err
	}
	state, err := e.stateDir()
	if err != nil {
		return embed.Config{}, err
	}
	s := e.settings
	c := embed.Config{
		Database: queue.Config{URL: url, Direct: s.Text("direct_url"), PollOnly: s.Text("poll_only") == "true"},
		Version:  buildVersion(debug.ReadBuildInfo()).Version, Queues: s.Value("queues").Items, Labels: s.Value("labels").Pairs(),
		Slots: e.number("slots"),
		TTL:   e.span("lease_ttl"), DrainTimeout: e.span("drain_timeout"),
		Commands: e.commands(),
		HTTP:     http.Policy{Allow: e.prefixes("http_allow"), Deny: e.prefixes("http_deny")},
		Metrics:  metrics.Config{PerDAG: s.Text("metrics_per_dag") == "true"}, Listen: s.Text("listen"),
		Logs: logship.Config{AttemptBytes: e.size("log_limit"), SpoolBytes: e.size("spool_limit")},
		Log:  e.log, LocalFiles: s.Text("local_files") == "true",
	}
	if e.isPrivate() { // these settings are about another database
		c.Database.Direct, c.Database.PollOnly = "", false
	}
	if c.Name, err = e.workerName(); err != nil {
		return c, err
	}
	c.Folder, c.Memory = filepath.Join(state, c.Name), filepath.Join(state, "installations")
	c.SQL.KeepOwn = s.Text("own_sql") == "false"
	if c.SQL.Connections, err = e.connections(); err != nil {
		return c, err
	}
	c.Secrets = e.secrets()
	return c, e.checkWorker(&c)
}

func (e *env) commands() *exec.Config {
	s := e.settings
	bounds := s.Value("resources").Pairs()
	c := &exec.Config{
		RunDir: memoryDir(), KeepWorkDir: s.Text("keep_workdir") == "true",
		Env: s.Value("env").Pairs(), EnvInherit: s.Text("env_inherit") == "true", EnvDeny: s.Value("env_deny").Items, EnvSecrets: s.Value("secrets_env").Items,
		Shell: s.Value("shell").Items, Allow: s.Value("command_allow").Items, Deny: s.Value("command_deny").Items,
	}
	c.Resources.Memory, _ = parseSize(bounds["memory"])
	c.Resources.PIDs, _ = strconv.Atoi(bounds["pids"])
	c.Resources.Nice, _ = strconv.Atoi(bounds["nice"])
	return c
}

// memoryDir returns a folder of this user in memory, for small files; "": there is none.
func memoryDir() string {
	path := fmt.Sprintf("/dev/shm/oarlock-%d", os.Getuid())
	if embed.OwnFolder(path) != nil {
		return ""
	}
	return path
}

// stateDir returns the folder in which workers of this user keep what must outlive them.
func (e *env) stateDir() (string, error) {
	if dir := e.settings.Text("state_dir"); dir != "" {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(e.Dir, dir)
		}
		return dir, nil
	}
	if dir, ok := e.Lookup("XDG_STATE_HOME"); ok && filepath.IsAbs(dir) {
		return letThrough(filepath.Join(dir, "oarlock")), nil
	}
	for _, dir := range e.statePlaces() {
		if embed.OwnFolder(letThrough(dir)) == nil {
			return dir, nil
		}
	}
	return "", &failure{
		kind: invalid, err: errors.New("there is no folder for the state of a worker"),
		hint: "name one that this user may write to: state_dir in the settings file, or OARLOCK_STATE_DIR",
	}
}

// letThrough makes root's folder passable for the user of the private server, which has a folder below it. It ignores
// errors: the later use of the folder reports them.
func letThrough(dir string) string {
	if os.Getuid() == 0 {
		_ = os.MkdirAll(dir, 0o711)
	}
	return dir
}

func (e *env) statePlaces() (places []string) {
	if os.Getuid() == 0 {
		places = append(places, "/var/lib/oarlock")
	}
	if home, ok := e.Lookup("HOME"); ok && filepath.IsAbs(home) {
		places = append(places, filepath.Join(home, ".local", "state", "oarlock"))
	}
	return append(places, filepath.Join(os.TempDir(), fmt.Sprintf("oarlock-%d", os.Getuid())))
}

// The functions below read settings that were checked when they were loaded.

func (e *env) number(name string) int {
	n, _ := strconv.Atoi(e.settings.Text(name))
	return n
}

func (e *env) span(name string) time.Duration {
	d, _ := dagspec.ParseDuration(e.settings.Text(name))
	return d.Std()
}

func (e *env) size(name string) int64 {
	n, _ := parseSize(e.settings.Text(name))
	return n
}

func (e *env) prefixes(name string) (all []netip.Prefix) {
	for _, text := range e.settings.Value(name).Items {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}, {"", 1}}

// parseSize parses a number of bytes, such as 64MiB.
func parseSize(text string) (int64, error) {
	i := slices.IndexFunc(sizeUnits, func(u struct {
		name  string
		bytes int64
	},
	) bool {
		return strings.HasSuffix(text, u.name)
	})
	unit := sizeUnits[i]
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(text, unit.name)), 10, 64)
	if err != nil || n <= 0 || n > (1<<62)/unit.bytes {
		return 0, errors.New("must be a size such as 512KiB, 64MiB or 1GiB")
	}
	return n * unit.bytes, nil
}

// shownConnection hides the password of a connection's URL.
func shownConnection(item string) string {
	name, where, _ := strings.Cut(item, "=")
	return name + "=" + pglink.Redact(where)
}

// hiddenValue hides the value of a variable, which may be a secret.
func hiddenValue(item string) string {
	name, _, _ := strings.Cut(item, "=")
	return name + "=…"
}
