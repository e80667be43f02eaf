package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/doctor"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web"
)

const (
	webListen = "127.0.0.1:7070"
	noListen  = "none"
)

func newWebCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "web",
		Usage: "serve pages about runs to a browser on this machine",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "serve at `HOST:PORT`, which must be a loopback address", Value: webListen},
			&cli.StringFlag{Name: "base", Usage: "put all pages below this `PATH`, like /x/y, for a proxy that passes it on"},
			&cli.BoolFlag{Name: "read-only", Usage: "offer and take no action"},
		},
		Description: manual{
			about: `Serves runs with their steps, graphs and logs, DAGs, schedules, queues, workers and the approvals that wait, until
Ctrl-C or TERM. What goes on is seen as it happens. Pages show and do what this user may in the database:
oarlock_read sees all, oarlock_submit steers its own runs, oarlock_admin everything; with --read-only pages do nothing.
Nobody signs in, so that only loopback addresses are served, and only under their own names.
From another machine, ` + "`ssh -L 7070:" + webListen + " HOST`" + ` leads there.
/livez and /readyz answer for supervisors. See docs/web.md.`,
			examples: []string{"oarlock web", "oarlock web --listen 127.0.0.1:8080", "oarlock web --base /oarlock --read-only"},
			exits: []exitNote{
				{exitOK, "Ctrl-C or TERM ended it"},
				{exitError, "something else listens there, this user may not do that, or an error"},
				usageNote, unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error {
			return runWeb(c.Context, e, c.String("listen"), web.Options{Base: c.String("base"), ReadOnly: c.Bool("read-only")})
		},
	}
}

func runWeb(ctx context.Context, e *env, address string, o web.Options) error {
	address, err := loopbackAddress(address)
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return &failure{kind: general, err: fmt.Errorf("serve pages: %w", err), hint: "end what listens there, or name another port: --listen 127.0.0.1:7071"}
		}
		page, err := e.startPages(ctx, store, listener, o)
		if err != nil {
			listener.Close()
			return err
		}
		return <-page.ended
	})
}

// pageServer serves pages until the context that it was started with ends.
type pageServer struct {
	stop  context.CancelFunc
	ended chan error // its end; nil where it was told to
}

// startPages serves a store's pages on a listener, which it owns unless it fails.
func (e *env) startPages(ctx context.Context, store *queue.Store, listener net.Listener, o web.Options) (*pageServer, error) {
	url, link, err := e.database(ctx)
	if err != nil {
		return nil, err
	}
	o.Doctor = func(ctx context.Context) ([]web.Check, error) { return e.pageChecks(ctx, url) }
	o.Version, o.Name, o.Log = buildVersion(debug.ReadBuildInfo()).Version, e.databaseName(link), e.log
	handler, err := web.Handler(store, o)
	if err != nil {
		return nil, &usageError{msg: "--base: " + err.Error()}
	}
	e.remark("page      http://%s%s/", listener.Addr(), o.Base)
	within, stop := context.WithCancel(ctx)
	p := &pageServer{stop: stop, ended: make(chan error, 1)}
	go func() { p.ended <- web.Serve(within, listener, handler, e.log) }()
	return p, nil
}

// pageChecks are the checks of `oarlock doctor`. A database that cannot be reached is what the first of them says.
func (e *env) pageChecks(ctx context.Context, url string) (checks []web.Check, err error) {
	report, _ := doctor.Run(ctx, url, e.log, doctor.WithWorker(queue.Connections(false)))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, c := range report.Checks {
		checks = append(checks, web.Check{Name: c.Name, State: string(c.Status), Message: c.Detail, Hint: c.Hint})
	}
	return checks, nil
}

// endPages stops a server, nil for none, and waits for its end. What goes on beside it does not fail with it.
func (e *env) endPages(p *pageServer) {
	if p == nil {
		return
	}
	p.stop()
	if err := <-p.ended; err != nil {
		e.log.Error("pages ended", "error", err)
	}
}

// databaseName is what people call a database.
func (e *env) databaseName(link *pgx.ConnConfig) string {
	if e.server != nil {
		return "private database"
	}
	return link.Database + " on " + link.Host
}

// loopbackAddress refuses an address that other machines reach, because nobody signs in.
func loopbackAddress(given string) (string, error) {
	host, port, err := net.SplitHostPort(given)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	}
	switch {
	case err != nil:
		return "", &usageError{msg: fmt.Sprintf("--listen: %q is not HOST:PORT", given), hint: "like " + webListen}
	case host == "":
		host = "127.0.0.1"
	case !web.IsLoopback(host):
		return "", &usageError{
			msg:  fmt.Sprintf("--listen: other machines may reach %s, and nobody signs in to these pages", host),
			hint: "serve a loopback address such as " + webListen + ", and lead there with `ssh -L 7070:" + webListen + " HOST`",
		}
	}
	return net.JoinHostPort(host, port), nil
}

// listenNear listens at an address, or at another port of its host where that one is taken.
func listenNear(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		host, _, _ := net.SplitHostPort(address)
		listener, err = net.Listen("tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, fmt.Errorf("serve pages: %w", err)
	}
	return listener, nil
}
