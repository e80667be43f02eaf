package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/action/postgres"
	"github.com/oarlock-dev/oarlock/worker/embed"
	"github.com/oarlock-dev/oarlock/worker/exec"
	"github.com/oarlock-dev/oarlock/worker/supervise"
)

// The guard starts a driver process again after each failure. So settings that the driver process would refuse are checked
// here, before the guard starts.

// checkWorker refuses settings that contradict each other, and settings that do not fit this host.
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
		return e.refuse("state_dir", fmt.Errorf("state_dir: %w", err), "name another folder, or mend this one: state_dir in the settings file, or OARLOCK_STATE_DIR")
	}
	return e.checkLimits(c)
}

// checkLimits refuses more slots than the limits of this host allow. The driver process warns of limits that are only low.
func (e *env) checkLimits(c *embed.Config) error {
	for _, s := range c.Shortages() {
		if s.Fatal() {
			why := fmt.Sprintf("slots: %d cannot all be used. %s: there are %d, and they need %d", c.Slots, s.What, s.Has, s.Needs)
			return &failure{kind: usage, err: errors.New(why), hint: s.Hint}
		}
	}
	return nil
}

// refuse returns an error about a setting, with the place that its value comes from.
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

// workerName returns the configured name, or the host's name.
func (e *env) workerName() (string, error) {
	if name := e.settings.Text("name"); name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err == nil {
		if err = supervise.CheckName(name); err != nil {
			err = fmt.Errorf("the host's name %q is none for a worker: it %w", name, err)
		}
	}
	if err != nil {
		return "", &failure{kind: invalid, err: err, hint: "name the worker: --name NAME"}
	}
	return name, nil
}

// connections reads the databases that SQL tasks may use. Its errors show only the name of a connection, not its URL.
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

// secrets returns which secrets DAGs may use: none that leads to a database of the worker.
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
			return "", fmt.Errorf("there is no variable %s", name)
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
		return fmt.Errorf("has no %q: memory, pids and nice may be bounded", name)
	}
	if err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	return nil
}
