package pglocal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"
)

const (
	stopPatience = time.Minute     // a fast shutdown still writes a checkpoint
	slowAfter    = 5 * time.Second // after this time the user gets a message about the delay
	launchTries  = 20              // after a port was taken meanwhile, or while old backends are still leaving
	retryEvery   = 250 * time.Millisecond
)

// Config configures the server and its folder. The zero value is the server in [StateDir].
type Config struct {
	Dir       string            // state folder; empty: StateDir, or a temp folder for a throw-away server
	Throwaway bool              // the folder is removed when the last user stops
	KeepFor   int               // process ID that also counts as a user while the process lives; 0: none
	Port      int               // the only acceptable port; 0: the folder's own, or another if that is in use
	Settings  map[string]string // extra settings of PostgreSQL
	Log       *slog.Logger      // nil: silent
	Say       func(string)      // progress messages for people; nil: silent

	fetch fetcher // nil: embedded-postgres
}

func (c Config) say(s string) {
	if c.Say != nil {
		c.Say(s)
	}
}

// Server is a running private server that this process is a user of.
type Server struct {
	folder   *folder
	pm       postmaster
	lifeline lifeline
	users    flock
	keep     bool // the server may outlive its users

	left atomic.Bool
}

// Start starts the private server of a folder, or attaches to it if it runs already. It creates the folder and the data if they do
// not exist, and downloads PostgreSQL if none is installed. It waits until the server answers. That may take a while after a crash:
// only ctx limits it. The caller calls Stop once.
func Start(ctx context.Context, c Config) (*Server, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	for {
		s, err := start(ctx, c)
		if !errors.Is(err, errVanished) {
			return s, err
		}
	}
}

func start(ctx context.Context, c Config) (*Server, error) {
	f, err := openFolder(ctx, c)
	if err != nil {
		return nil, err
	}
	defer f.lock.close()
	s, err := f.attach(ctx, c)
	if errors.Is(err, errNobody) && !f.lock.is(f.path("lock")) {
		return nil, errVanished
	}
	if errors.Is(err, errNobody) {
		s, err = f.launch(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	if s.users, err = openFlock(f.path("users")); err != nil || !s.users.try(unix.LOCK_SH) {
		s.lifeline.close()
		return nil, explain("join the users", f.dir, cmp.Or(err, errPatience))
	}
	return s, nil
}

// attach makes this process a user of the server that runs in the folder, and waits until it answers. It returns errNobody if no
// server runs.
func (f *folder) attach(ctx context.Context, c Config) (*Server, error) {
	l, err := joinLifeline(f.path("lifeline"))
	if err != nil {
		return nil, err
	}
	return f.await(ctx, c, l)
}

// launch starts a server in the folder, and waits until it answers. Before, it stops a server that lost its supervisor. If the
// start fails, launch waits until no process is left, and removes a throw-away folder. It does neither if ctx has ended and the
// process c.KeepFor may still need the server.
func (f *folder) launch(ctx context.Context, c Config) (*Server, error) {
	if err := f.clear(ctx); err != nil {
		return nil, err
	}
	s, err := f.tryLaunch(ctx, c)
	if err == nil || ctx.Err() != nil && c.KeepFor > 0 { // the process KeepFor may still need the server
		return s, err
	}
	return nil, errors.Join(err, f.end(context.WithoutCancel(ctx), postmaster{}))
}

func (f *folder) tryLaunch(ctx context.Context, c Config) (*Server, error) {
	bin, err := f.ensureData(ctx, c)
	if err != nil {
		return nil, err
	}
	port := cmp.Or(c.Port, f.state.Port)
	if c.Port == 0 && !portFree(port) {
		port = 0
	}
	for try := 1; ; try++ {
		s, err := f.launchOnce(ctx, c, bin, port)
		if c.Port == 0 && errors.Is(err, errPortTaken) {
			port = 0
		}
		passing := errors.Is(err, errPortTaken) || errors.Is(err, errShmInUse)
		if !passing || try == launchTries {
			return s, err
		}
		if err := pause(ctx, retryEvery); err != nil {
			return nil, err
		}
	}
}

func (f *folder) launchOnce(ctx context.Context, c Config, bin Binaries, port int) (_ *Server, err error) {
	if port == 0 {
		if port, err = freePort(); err != nil {
			return nil, err
		}
	}
	sockets, temp, err := f.socketDir()
	if err != nil {
		return nil, err
	}
	l, err := f.supervise(c.KeepFor, temp, f.command(bin, c.Settings, port, sockets))
	if err != nil {
		return nil, err
	}
	s, err := f.await(ctx, c, l)
	if errors.Is(err, errNobody) {
		said, _ := os.ReadFile(f.path("server.log"))
		err = diagnose("start PostgreSQL in "+f.dir, string(said), f.path("server.log"), err)
	}
	return s, err
}

// command returns the server's command line. Settings that we need come last, so that no other setting can override them.
func (f *folder) command(bin Binaries, settings map[string]string, port int, sockets string) []string {
	args := []string{filepath.Join(bin.Dir, "postgres"), "-D", f.data()}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", key+"="+settings[key])
	}
	for _, kv := range [][2]string{
		{"listen_addresses", "127.0.0.1"},
		{"port", strconv.Itoa(port)},
		{"unix_socket_directories", sockets},
		{"unix_socket_permissions", "0700"},
		{"logging_collector", "off"}, // we rotate server.log
		{"log_destination", "stderr"},
		{"lc_messages", "C"}, // diagnose reads English messages
	} {
		args = append(args, "-c", kv[0]+"="+kv[1])
	}
	return args
}

// await waits until the server answers, and returns it with the lifeline l. It returns errNobody if the server has ended. If it
// fails, it closes l. Only ctx limits the wait.
func (f *folder) await(ctx context.Context, c Config, l lifeline) (*Server, error) {
	s := &Server{folder: f, lifeline: l, keep: c.KeepFor > 0}
	begun, told := time.Now(), false
	err := poll(ctx, func() (bool, error) {
		if !l.hello() {
			return false, errNobody
		}
		if !told && time.Since(begun) > slowAfter {
			told = true
			c.say("PostgreSQL is still starting; after a crash it recovers first (log: " + f.path("server.log") + ")")
		}
		if _, err := os.Lstat(f.mark()); err == nil { // the supervisor is deciding whether to stop
			return false, nil
		}
		pm, ok := readPostmaster(f.data())
		switch {
		case !ok || !pm.ready:
			return false, nil
		case !pm.runs(f.data()):
			return false, f.unseen(pm, time.Since(begun))
		}
		s.pm = pm
		return s.greet(ctx)
	})
	if err != nil {
		l.close()
		return nil, err
	}
	c.Log.Debug("private PostgreSQL is up", "dir", f.dir, "pid", s.pm.pid, "port", s.pm.port)
	return s, nil
}

// unseen returns the error for a server that is ready by its pid file, but that this process cannot see among the processes,
// probably because the server is in another container. since is the time that the caller has waited. For the first minute unseen
// returns nil, because that may pass: the caller waits longer.
func (f *folder) unseen(pm postmaster, since time.Duration) error {
	if since < stopPatience {
		return nil
	}
	return &Error{
		ErrBusy, fmt.Sprintf("%s is used by a server (pid %d) that this process cannot see; does another container share the folder?", f.dir, pm.pid),
		advice[ErrBusy], errPatience,
	}
}

// greet logs in once, to check that the server answers and accepts our password. It returns false if the server starts up, shuts
// down or cannot be reached, so that the caller tries again. It returns an error if the server refuses the login for another
// reason.
func (s *Server) greet(ctx context.Context) (bool, error) {
	conn, err := pgx.Connect(ctx, s.URL(""))
	if err == nil {
		return true, conn.Close(ctx)
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || strings.HasPrefix(refused.Code, "57P") {
		return false, nil
	}
	return false, diagnose("log in to the server in "+s.folder.dir, refused.Message, s.folder.path("server.log"), err)
}

// clear prepares a folder without supervisor for a start. It stops a server that lost its supervisor, and waits for its end. It
// removes the mark of the last supervisor, and a pid file with the number of a foreign process. PostgreSQL itself handles a pid
// file with a number that no process has.
func (f *folder) clear(ctx context.Context) error {
	if err := os.Remove(f.mark()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return explain("clear", f.dir, err)
	}
	pm, ok := readPostmaster(f.data())
	switch {
	case !ok || !alive(pm.pid):
		return nil
	case !pm.runs(f.data()):
		return explain("remove a stale pid file", f.dir, os.Remove(filepath.Join(f.data(), "postmaster.pid")))
	}
	return f.waitGone(ctx, pm)
}

// waitGone waits until neither the supervisor nor the server pm runs. It shuts the server down if that has no supervisor; the zero
// pm is no server. It returns an *Error of kind ErrBusy after stopPatience, or when ctx ends.
func (f *folder) waitGone(ctx context.Context, pm postmaster) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopPatience, errPatience)
	defer cancel()
	err := poll(ctx, func() (bool, error) {
		if l, err := joinLifeline(f.path("lifeline")); !errors.Is(err, errNobody) {
			l.close()
			return false, err
		}
		if pm.runs(f.data()) {
			_ = unix.Kill(pm.pid, unix.SIGINT) // fast shutdown; again does no harm
			return false, nil
		}
		return true, nil
	})
	if err != nil {
		return &Error{
			ErrBusy, fmt.Sprintf("PostgreSQL (pid %d) in %s is still shutting down", pm.pid, f.dir),
			"wait until the server has written its data to disk; the log of the server: " + f.path("server.log"), err,
		}
	}
	return nil
}

// end waits for the end of the supervisor and of the server pm (zero: none), and removes a throw-away folder if the supervisor has
// not done so.
func (f *folder) end(ctx context.Context, pm postmaster) error {
	err := f.waitGone(ctx, pm)
	if err == nil && f.throwaway {
		err = explain("remove", f.dir, os.RemoveAll(f.dir))
	}
	return err
}

// Stop ends this process's use of the server. If this was the last user, the server stops, and Stop waits until it is gone and a
// throw-away folder is removed. With Config.KeepFor it does not wait, because the server may outlive this call. A second call does
// nothing and returns nil.
func (s *Server) Stop(ctx context.Context) error {
	if s.left.Swap(true) {
		return nil
	}
	f := s.folder
	lock, err := lockFile(ctx, f.path("lock")) // so that no user joins between the check and the stop
	last := err == nil && s.users.try(unix.LOCK_EX)
	s.lifeline.close()
	s.users.close()
	if err != nil {
		return explain("lock", f.dir, err)
	}
	defer lock.close()
	if !last || s.keep {
		return nil
	}
	return f.end(ctx, s.pm)
}

// URL returns the URL of a database over TCP, with the password. "" means the database postgres.
func (s *Server) URL(database string) string {
	u := s.url(database, url.Values{"sslmode": {"disable"}})
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.pm.port))
	return u.String()
}

// SocketURL returns the URL of a database over the unix socket, with the password. "" means the database postgres.
func (s *Server) SocketURL(database string) string {
	u := s.url(database, url.Values{"host": {s.pm.socketDir}, "port": {strconv.Itoa(s.pm.port)}})
	return u.String()
}

func (s *Server) url(database string, query url.Values) *url.URL {
	if database == "" {
		database = "postgres"
	}
	return &url.URL{
		Scheme: "postgres", User: url.UserPassword(s.folder.state.User, s.folder.state.Password),
		Path: "/" + database, RawQuery: query.Encode(),
	}
}

// Port returns the server's port on 127.0.0.1.
func (s *Server) Port() int { return s.pm.port }

// Dir returns the state folder.
func (s *Server) Dir() string { return s.folder.dir }

// PID returns the process ID of the server.
func (s *Server) PID() int { return s.pm.pid }

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
