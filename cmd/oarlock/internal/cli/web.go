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
		Usage: "serve pages about runs to browsers",
		Flags: keyFlags(webKeys()),
		Description: manual{
			about: `Serves runs with their steps, graphs and logs, DAGs, schedules, queues, workers and the approvals that wait, until
Ctrl-C or TERM. What goes on is seen as it happens. Pages show and do what a login may in the database:
oarlock_read sees all, oarlock_submit steers its own runs, oarlock_approve decides approvals, oarlock_admin does
everything; with --read-only pages do nothing.
Unless people sign in, only loopback addresses are served, and all see what this user may.
From another machine, ` + "`ssh -L 7070:" + webListen + " HOST`" + ` leads there.
With --auth postgres people sign in with their login of the database, and see and do what it may. With htpasswd,
proxy and oidc the settings web_readers, web_submitters and web_operators say who has which role, and web_reader_url,
web_submitter_url and web_operator_url which login of the database acts for it.
/livez and /readyz answer for supervisors; /api/v1 answers programs. See docs/web.md.`,
			examples: []string{
				"oarlock web", "oarlock web --listen 127.0.0.1:8080 --read-only", "oarlock web --url http://localhost:7070/oarlock",
				"oarlock web --auth postgres --listen :7070 --url https://runs.example.org",
			},
			exits: []exitNote{
				{exitOK, "Ctrl-C or TERM ended it"},
				{exitError, "something else listens there, this user may not do that, or an error"},
				usageNote, unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error {
			if err := e.loadKeys(c, webKeys()); err != nil {
				return err
			}
			return runWeb(c.Context, e)
		},
	}
}

func runWeb(ctx context.Context, e *env) error {
	plan, err := e.webPlan()
	if err != nil {
		return err
	}
	if plan.auth != authNone {
		return e.serveSite(ctx, &plan)
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		listener, err := listenAt(plan.listen)
		if err != nil {
			return err
		}
		page, err := e.startPages(ctx, store, listener, &plan)
		if err != nil {
			listener.Close()
			return err
		}
		return <-page.ended
	})
}

func listenAt(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &failure{kind: general, err: fmt.Errorf("serve pages: %w", err), hint: "end what listens there, or name another port: --listen 127.0.0.1:7071"}
	}
	return listener, nil
}

// serveSite serves pages with sign-in.
func (e *env) serveSite(ctx context.Context, plan *webPlan) error {
	_, link, err := e.database(ctx)
	if err != nil {
		return err
	}
	e.frame(plan, link)
	o := web.SiteOptions{Options: plan.options, Secure: plan.isSecure(), Ready: e.ready}
	defer func() {
		for _, login := range o.Logins {
			login.Store.Close()
		}
	}()
	if err := e.signIn(ctx, plan, &o); err != nil {
		return err
	}
	if o.Provider != nil {
		defer o.Provider.Close()
	}
	site, err := web.NewSite(o)
	if err != nil {
		return &usageError{msg: "--url: " + err.Error()}
	}
	defer site.Close()
	listener, err := listenAt(plan.listen)
	if err != nil {
		return err
	}
	e.remark("page      %s", plan.address(listener.Addr()))
	return web.Serve(ctx, listener, site, plan.tls, e.log)
}

// frame sets what all pages show: version and database.
func (e *env) frame(plan *webPlan, link *pgx.ConnConfig) {
	o := &plan.options
	o.Version, o.Name, o.Log = buildVersion(debug.ReadBuildInfo()).Version, e.databaseName(link), e.log
}

// pageServer serves pages until the context of startPages ends.
type pageServer struct {
	stop  context.CancelFunc
	ended chan error // receives why it ended; nil: it was stopped
}

// startPages serves a store's pages on a listener. It takes over the listener unless it returns an error.
func (e *env) startPages(ctx context.Context, store *queue.Store, listener net.Listener, plan *webPlan) (*pageServer, error) {
	url, link, err := e.database(ctx)
	if err != nil {
		return nil, err
	}
	e.frame(plan, link)
	plan.options.Doctor = func(ctx context.Context) ([]web.Check, error) { return e.pageChecks(ctx, url) }
	handler, err := web.Handler(store, plan.options)
	if err != nil {
		return nil, &usageError{msg: "--url: " + err.Error()}
	}
	e.remark("page      %s", plan.address(listener.Addr()))
	within, stop := context.WithCancel(ctx)
	p := &pageServer{stop: stop, ended: make(chan error, 1)}
	go func() { p.ended <- web.Serve(within, listener, handler, plan.tls, e.log) }()
	return p, nil
}

// pageChecks makes the checks of `oarlock doctor`. If the database cannot be reached, the first check reports that.
func (e *env) pageChecks(ctx context.Context, url string) (checks []web.Check, err error) {
	report, _ := doctor.Run(ctx, url, e.log, doctor.WithWorker(queue.Connections(false), queue.SessionConns))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, c := range report.Checks {
		checks = append(checks, web.Check{Name: c.Name, State: string(c.Status), Message: c.Detail, Hint: c.Hint})
	}
	return checks, nil
}

// endPages stops a server, or does nothing for nil, and waits until it has ended. It only logs the server's error, so that
// the command around it does not fail.
func (e *env) endPages(p *pageServer) {
	if p == nil {
		return
	}
	p.stop()
	if err := <-p.ended; err != nil {
		e.log.Error("pages ended", "error", err)
	}
}

// databaseName returns the name of the database for the pages.
func (e *env) databaseName(link *pgx.ConnConfig) string {
	if e.server != nil {
		return "private database"
	}
	return link.Database + " on " + link.Host
}

// loopbackAddress refuses an address that other machines can reach, because these pages have no sign-in.
func loopbackAddress(given string) (string, error) {
	host, port, err := splitAddress(given)
	switch {
	case err != nil:
		return "", err
	case host == "":
		host = "127.0.0.1"
	case !web.IsLoopback(host):
		return "", &usageError{
			msg:  fmt.Sprintf("--listen: other machines may reach %s, and nobody signs in to these pages", host),
			hint: "serve a loopback address such as " + webListen + ", and lead there with `ssh -L 7070:" + webListen + " HOST`; or have people sign in: `oarlock web --auth postgres`",
		}
	}
	return net.JoinHostPort(host, port), nil
}

// splitAddress splits HOST:PORT, and refuses any other text.
func splitAddress(given string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(given)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	}
	if err != nil {
		return "", "", &usageError{msg: fmt.Sprintf("--listen: %q is not HOST:PORT", given), hint: "like " + webListen}
	}
	return host, port, nil
}

// listenNear listens at an address, or at another port of the same host if the port is taken.
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
