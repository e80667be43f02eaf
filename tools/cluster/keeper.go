package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/internal/pglocal"
)

const (
	upPatience  = 2 * time.Minute
	endPatience = time.Minute // for tasks to finish, and then again for what does not listen
	readTime    = 5 * time.Second
	lookEvery   = 20 * time.Millisecond
)

//go:embed login.sql
var loginSQL string

const login = "cluster_worker" // what login.sql makes

// keeper owns a cluster. One goroutine does all of it; others only accept connections, and wait for workers to end.
type keeper struct {
	place
	settings  []string
	server    *pglocal.Server
	url       string // of the superuser, for people
	workerURL string // of a login that has the role of workers
	members   []*member
	net       *network // nil: all share the machine's
}

// keep brings a cluster up, and serves until it is told to end it.
func keep(ctx context.Context, o options) error {
	// Workers are to die with the thread that started them: see attributes.
	runtime.LockOSThread()
	const lockFD, sayFD = 3, 4
	syscall.CloseOnExec(lockFD) // else workers would hold them too
	syscall.CloseOnExec(sayFD)
	lock, say := os.NewFile(lockFD, lockName), os.NewFile(sayFD, "say")
	k := &keeper{place: place{o.Dir}, settings: o.Settings}
	listener, err := net.Listen("unix", k.socket())
	if err == nil {
		defer listener.Close()
		err = k.up(ctx, o)
	}
	if err != nil {
		err = errors.Join(err, k.end())
		fmt.Fprint(say, err, "\x00")
		return err
	}
	fmt.Fprint(say, ready, "\x00")
	say.Close()
	err = k.serve(ctx, listener)
	runtime.KeepAlive(lock)
	return err
}

func (k *keeper) up(ctx context.Context, o options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, upPatience)
	defer cancel()
	if k.server, err = pglocal.Start(ctx, pglocal.Config{Throwaway: true}); err != nil {
		return err
	}
	k.url = k.server.URL("")
	for _, args := range [][]string{{"migrate", "up"}, {"migrate", "roles"}} {
		if out, err := k.oarlock(args...); err != nil {
			return fmt.Errorf("oarlock %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	if k.workerURL, err = k.login(ctx); err != nil {
		return err
	}
	if o.Networks {
		if k.net, err = newNetwork(k.place, k.workerURL); err != nil {
			return err
		}
	}
	var names []string
	for i := range o.Workers {
		names = append(names, workerName(i))
	}
	return k.start(ctx, names...)
}

// login makes the user that workers are.
func (k *keeper) login(ctx context.Context) (string, error) {
	password := rand.Text()
	u, err := url.Parse(k.url)
	if err != nil {
		return "", fmt.Errorf("read the server's address: %w", err)
	}
	query := u.Query()
	query.Set("cluster.password", password) // a setting of the session, where login.sql finds it
	u.RawQuery = query.Encode()
	conn, err := pglink.Connect(ctx, u.String(), pglink.Options{})
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, loginSQL); err != nil {
		return "", fmt.Errorf("make a login for workers: %w", err)
	}
	query.Del("cluster.password")
	u.User, u.RawQuery = url.UserPassword(login, password), query.Encode()
	return u.String(), nil
}

// serve does what it is asked, one after the other.
func (k *keeper) serve(ctx context.Context, listener net.Listener) error {
	conns, done := make(chan net.Conn), make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns <- conn
		}
	}()
	for over := false; !over; {
		select {
		case conn := <-conns:
			over = k.answer(ctx, conn)
		case <-ctx.Done():
			over = true
			if err := k.end(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
	listener.Close()
	for {
		select {
		case conn := <-conns: // too late
			conn.Close()
		case <-done:
			return nil
		}
	}
}

// answer does one thing, and says whether it was the last.
func (k *keeper) answer(ctx context.Context, conn net.Conn) (over bool) {
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(readTime))
	var q request
	if err := json.NewDecoder(conn).Decode(&q); err != nil {
		return false
	}
	text, err := k.do(ctx, q)
	r := reply{Text: text}
	if err != nil {
		r.Error = err.Error()
	}
	_ = json.NewEncoder(conn).Encode(r) //nolint:errchkjson // who asked may have gone
	return q.Verb == "down"
}

// environment is of all programs of the cluster: nothing of the caller's that could lead them elsewhere.
func (k *keeper) environment(more ...string) []string {
	env := []string{"HOME=" + k.dir, "OARLOCK_CONFIG=" + k.path("oarlock.yaml")}
	for _, name := range []string{"PATH", "LANG", "TZ", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, more...)
}

// oarlock runs a command as the superuser.
func (k *keeper) oarlock(args ...string) (string, error) {
	cmd := exec.Command(k.program(), args...)
	cmd.Env, cmd.Dir = k.environment("OARLOCK_DATABASE_URL="+k.url, "NO_COLOR=1"), k.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// end ends everything that was started, and removes the folder.
func (k *keeper) end() error {
	err := k.endWorkers()
	if k.net != nil {
		err = errors.Join(err, k.net.remove())
	}
	if k.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), endPatience)
		defer cancel()
		err = errors.Join(err, k.server.Stop(ctx))
	}
	return errors.Join(err, os.RemoveAll(k.dir))
}
