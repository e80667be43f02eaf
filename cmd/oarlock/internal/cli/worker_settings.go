package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
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
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/action/http"
	"github.com/oarlock-dev/oarlock/worker/action/postgres"
	"github.com/oarlock-dev/oarlock/worker/embed"
	"github.com/oarlock-dev/oarlock/worker/exec"
	"github.com/oarlock-dev/oarlock/worker/health"
	"github.com/oarlock-dev/oarlock/worker/logship"
	"github.com/oarlock-dev/oarlock/worker/metrics"
	"github.com/oarlock-dev/oarlock/worker/supervise"
)

// workerKeys declares the settings of workers. Some of them have a flag of the worker command.
func workerKeys() []config.Key {
	keys := []config.Key{
		{Name: "name", Implied: hostName(), Flag: "--name", Check: supervise.CheckName, Usage: "the worker's `NAME`, unique in its state folder; the host's name if none is given"},
		{Name: "slots", Flag: "--slots", Default: "8", Check: aCount, Usage: "run `N` tasks at once"},
		{Name: "queues", Flag: "--queue", Shape: config.List, Usage: "serve queue `NAME`; may be repeated; the worker serves all queues if none is given"},
		{Name: "labels", Flag: "--label", Shape: config.Map, Usage: "offer label `KEY=VALUE` to the selectors of DAGs; may be repeated"},
		{Name: "drain_timeout", Flag: "--drain-timeout", Default: "60s", Check: aDuration, Usage: "when the worker stops, let running tasks finish for at most `TIME`"},
		{Name: "poll_only", Flag: "--poll-only", Default: "false", Allowed: []string{"true", "false"}, Usage: "do not LISTEN on the database: find new runs by polling only"},
		{Name: "direct_url", Show: pglink.Redact, Usage: "Postgres URL of the server behind a pooler, for connections that need a session of their own"},
		{Name: "lease_ttl", Default: "5m", Check: aLease, Usage: "how long a worker may be silent before other workers take over its runs"},
		{Name: "heartbeat", Gone: "workers give a sign of life six times in each lease_ttl, and at least every five seconds"},
		{Name: "listen", Flag: "--listen", Check: health.CheckAddr, Usage: "answer /livez, /readyz and /metrics at `HOST:PORT`; the worker does not answer if none is given"},
		{Name: "metrics_per_dag", Default: "false", Allowed: []string{"true", "false"}, Usage: "also count metrics by DAG, for up to 200 DAGs"},
		{Name: "connections", Shape: config.Map, Show: shownConnection, Usage: "databases for postgres.query by name: a URL, env:NAME or file:PATH"},
		{Name: "own_sql", Default: "true", Allowed: []string{"true", "false"}, Usage: "whether postgres.query may use the worker's own database, with the worker's role"},
		{Name: "state_dir", Usage: "folder of lock files, work folders and spooled logs"},
		{Name: "keep_workdir", Default: "false", Allowed: []string{"true", "false"}, Usage: "keep the work folders of attempts after the end of the attempts, so that you can look at the folders"},
		{Name: "local_files", Default: "false", Allowed: []string{"true", "false"}, Usage: "whether DAGs are applied from files of this host: OARLOCK_SOURCE_DIR then names a DAG's folder"},
		{Name: "env", Shape: config.Map, Show: hiddenValue, Check: aVariable, Usage: "variables for every task"},
		{Name: "env_inherit", Default: "true", Allowed: []string{"true", "false"}, Usage: "whether tasks inherit the worker's environment"},
		{Name: "env_deny", Shape: config.List, Implied: exec.StandardDenyList, Check: exec.CheckNameGlob, Usage: "globs of variables that tasks do not inherit; [] lets all variables through; the standard list if none is given"},
		{Name: "secrets_env", Shape: config.List, Check: exec.CheckNameGlob, Usage: "globs of variables that DAGs may name as secrets; [] allows no variable; all variables if none is given"},
		{Name: "secrets_files", Shape: config.List, Check: aFileGlob, Usage: "globs of files that DAGs may name as secrets; [] allows no file; all files if none is given"},
		{Name: "secrets_command", Shape: config.List, Usage: "program (absolute path) and its arguments; the worker adds a key as the last argument, and the program prints that secret; no program if none is given"},
		{Name: "shell", Shape: config.List, Implied: exec.StandardShell, Usage: "program and arguments that read `run:`; /bin/sh -eu if none is given"},
		{Name: "command_allow", Shape: config.List, Check: exec.CheckProgramGlob, Usage: "globs of programs that tasks may start; all programs if none is given"},
		{Name: "command_deny", Shape: config.List, Check: exec.CheckProgramGlob, Usage: "globs of programs that tasks must not start"},
		{Name: "resources", Shape: config.Map, Check: aResource, Usage: "limits of each command: memory, pids, nice"},
		{Name: "log_limit", Default: "64MiB", Check: aSize, Usage: "bytes of log that are kept of an attempt"},
		{Name: "spool_limit", Default: "1GiB", Check: aSize, Usage: "bytes of log that wait on disk while the database is away"},
		{Name: "http_allow", Shape: config.List, Check: aPrefix, Usage: "addresses (CIDR) that http.request may reach even if http_deny has them"},
		{Name: "http_deny", Shape: config.List, Check: aPrefix, Usage: "addresses (CIDR) that http.request must not reach"},
	}
	for i := range keys {
		keys[i].Env = []string{"OARLOCK_" + strings.ToUpper(keys[i].Name)}
	}
	return keys
}

// hostName returns the default name of workers, which is the host's, or nil if that is unknown.
func hostName() []string {
	name, err := os.Hostname()
	if err != nil {
		return nil
	}
	return []string{name}
}

// keyFlags returns a flag for each key that has one.
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

// usageOf returns the usage of a setting. If only some values are allowed, it lists them.
func usageOf(k config.Key) string {
	if len(k.Allowed) == 0 {
		return k.Usage
	}
	return k.Usage + ": " + config.OrList(k.Allowed)
}

// loadKeys decides the settings again, now with the flags that the user gave for keys, the settings of one command.
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

// rigConfig returns the configuration of a worker that the settings describe. It returns an error for settings that contradict each
// other or do not fit this host. It makes the worker's folder.
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

// memoryDir returns a folder of this user in memory, for small files, and makes it if necessary. It returns "" if there is none.
func memoryDir() string {
	path := fmt.Sprintf("/dev/shm/oarlock-%d", os.Getuid())
	if embed.OwnFolder(path) != nil {
		return ""
	}
	return path
}

// stateDir returns the folder in which workers of this user keep files that must outlive them: state_dir, or else the folder in
// $XDG_STATE_HOME, or else the first usual place that this user can use. It returns an error if there is none.
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
		hint: "name a folder that this user may write to: state_dir in the settings file, or OARLOCK_STATE_DIR",
	}
}

// letThrough returns dir. For root it first makes that folder so that the user of the private server can pass through to a folder
// below it. It ignores errors: the later use of the folder reports them.
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

// parseSize parses a number of bytes, such as 64MiB, or without a unit. It refuses 0 and negative numbers.
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

// shownConnection returns name=URL with the password of the URL hidden.
func shownConnection(item string) string {
	name, where, _ := strings.Cut(item, "=")
	return name + "=" + pglink.Redact(where)
}

// hiddenValue returns name=value with the value replaced by …, since it may be a secret.
func hiddenValue(item string) string {
	name, _, _ := strings.Cut(item, "=")
	return name + "=…"
}

// The guard starts a driver process again after each failure. So settings that the driver process would refuse are checked
// here, before the guard starts.

// checkWorker returns an error for settings that the driver process would refuse, because they are invalid together or do not fit
// this host. It makes the worker's folder.
func (e *env) checkWorker(c *embed.Config) error {
	if c.Database.Direct != "" {
		if _, err := pglink.Parse(c.Database.Direct, pglink.Options{}); err != nil {
			return e.refuse("direct_url", fmt.Errorf("direct_url: %w", err))
		}
	}
	if msg, hint := dagspec.CheckShell(e.settings.Value("shell").Items); msg != "" {
		return e.refuse("shell", fmt.Errorf("shell: %s", msg), hint)
	}
	if command := c.Secrets.Command; len(command) > 0 {
		if err := aProgram(command[0]); err != nil {
			return e.refuse("secrets_command", fmt.Errorf("secrets_command: %w", err))
		}
	}
	if err := embed.OwnFolder(c.Folder); err != nil {
		return e.refuse("state_dir", fmt.Errorf("state_dir: %w", err), "name another folder in state_dir of the settings file or OARLOCK_STATE_DIR, or repair this folder")
	}
	return e.checkLimits(c)
}

// checkLimits returns an error if the limits of this host do not allow all slots. The driver process warns of limits that are only
// low.
func (e *env) checkLimits(c *embed.Config) error {
	for _, s := range c.Shortages() {
		if s.Fatal() {
			why := fmt.Sprintf("slots: this machine cannot use all %d slots. %s: there are %d, and %d are needed", c.Slots, s.What, s.Has, s.Needs)
			return &failure{kind: usage, err: errors.New(why), hint: s.Hint}
		}
	}
	return nil
}

// refuse returns an error about the setting called name, with the place that its value comes from and the hints. The error is about
// usage if the value is from a flag, otherwise about an invalid setting.
func (e *env) refuse(name string, why error, hint ...string) error {
	if where := e.settings.Value(name).Origin.Where; where != "" {
		why = fmt.Errorf("%s: %w", where, why)
	}
	k := invalid
	if e.settings.Value(name).Origin.Kind == config.FromFlag {
		k = usage
	}
	return &failure{kind: k, err: why, hint: strings.Join(append(hint, "see `oarlock config show --origin`"), "; ")}
}

// workerName returns the configured name, or else the host's name. It returns an error if the host's name cannot be a
// worker's.
func (e *env) workerName() (string, error) {
	if name := e.settings.Text("name"); name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err == nil {
		if err = supervise.CheckName(name); err != nil {
			err = fmt.Errorf("the host's name %q cannot be the name of a worker: it %w", name, err)
		}
	}
	if err != nil {
		return "", &failure{kind: invalid, err: err, hint: "name the worker: --name NAME"}
	}
	return name, nil
}

// connections returns the databases that SQL tasks may use, by name. It returns an error for an address that is not valid, or a
// variable or file that cannot be read; the error shows only the name of the connection, not its URL.
func (e *env) connections() (map[string]postgres.Connection, error) {
	all := map[string]postgres.Connection{}
	v := e.settings.Value("connections")
	for name, where := range v.Pairs() {
		url, err := e.secret(where)
		if err == nil {
			_, err = pglink.Parse(url, pglink.Options{})
		}
		if err != nil {
			return nil, e.refuse("connections", fmt.Errorf("connections.%s: %w", name, err),
				"write a URL, env:NAME, or file:PATH of a file that this user may read")
		}
		all[name] = postgres.Connection{URL: url}
	}
	return all, nil
}

// secrets returns the policy for secrets of DAGs: the variables, files and the program that they may use. It excludes each variable
// or file that leads to a database of the worker, such as the settings file.
func (e *env) secrets() worker.SecretPolicy {
	s := e.settings
	p := worker.SecretPolicy{Env: s.Value("secrets_env").Items, Files: s.Value("secrets_files").Items, Command: s.Value("secrets_command").Items}
	for _, where := range s.Value("connections").Pairs() {
		if name, ok := strings.CutPrefix(where, "env:"); ok {
			p.NeverEnv = append(p.NeverEnv, name)
		}
		if path, ok := strings.CutPrefix(where, "file:"); ok {
			p.NeverFiles = append(p.NeverFiles, path)
		}
	}
	if s.Path != "" {
		p.NeverFiles = append(p.NeverFiles, s.Path)
	}
	if path, ok := e.Lookup("PGPASSFILE"); ok && path != "" {
		p.NeverFiles = append(p.NeverFiles, path)
	}
	if home, ok := e.Lookup("HOME"); ok && filepath.IsAbs(home) {
		p.NeverFiles = append(p.NeverFiles, filepath.Join(home, ".pgpass"))
	}
	return p
}

func (e *env) secret(where string) (string, error) {
	if name, ok := strings.CutPrefix(where, "env:"); ok {
		text, ok := e.Lookup(name)
		if !ok || text == "" {
			return "", fmt.Errorf("there is no environment variable %s", name)
		}
		return text, nil
	}
	path, ok := strings.CutPrefix(where, "file:")
	if !ok {
		return notEmpty(where, "it is empty")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return notEmpty(strings.TrimSpace(string(text)), "the file is empty")
}

func notEmpty(text, otherwise string) (string, error) {
	if text == "" {
		return "", errors.New(otherwise)
	}
	return text, nil
}

func aCount(text string) error {
	if n, err := strconv.Atoi(text); err != nil || n < 1 {
		return errors.New("must be a whole number, at least 1")
	}
	return nil
}

func aDuration(text string) error {
	d, err := dagspec.ParseDuration(text)
	if err != nil || d <= 0 {
		return errors.New("must be a time such as 500ms, 30s or 5m")
	}
	return nil
}

func aLease(text string) error {
	if err := aDuration(text); err != nil {
		return err
	}
	if d, _ := dagspec.ParseDuration(text); d.Std() < queue.MinTTL {
		return fmt.Errorf("must be at least %v", queue.MinTTL)
	}
	return nil
}

func aVariable(item string) error {
	name, value, _ := strings.Cut(item, "=")
	return exec.CheckVariable(name, value)
}

func aFileGlob(text string) error {
	if _, err := path.Match(text, ""); err != nil || !path.IsAbs(text) {
		return errors.New("must be a pattern of an absolute path, such as /run/secrets/*")
	}
	return nil
}

func aProgram(text string) error {
	info, err := os.Stat(text)
	switch {
	case !filepath.IsAbs(text):
		return fmt.Errorf("%q must be the absolute path of a program", text)
	case err != nil:
		return err
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is no program", text)
	}
	return nil
}

func aPrefix(text string) error {
	if _, err := netip.ParsePrefix(text); err != nil {
		return errors.New("must be a range of addresses such as 10.0.0.0/8")
	}
	return nil
}

func aSize(text string) error {
	_, err := parseSize(text)
	return err
}

func aResource(item string) error {
	name, text, _ := strings.Cut(item, "=")
	var err error
	switch name {
	case "memory":
		err = aSize(text)
	case "pids":
		err = aCount(text)
	case "nice":
		if n, nan := strconv.Atoi(text); nan != nil || n < 0 || n > 19 {
			err = errors.New("must be a whole number from 0 to 19")
		}
	default:
		return fmt.Errorf("has no %q: you can limit memory, pids and nice", name)
	}
	if err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	return nil
}
