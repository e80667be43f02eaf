package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/doctor"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web"
	"github.com/oarlock-dev/oarlock/web/signin"
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
			about: `Serves pages about runs with their steps, graphs and logs, and about DAGs, schedules, queues, workers and approvals,
until Ctrl-C or TERM. Pages follow runs live. A page shows and does what its login may do in the database:
oarlock_read sees everything, oarlock_submit steers its own runs, oarlock_approve decides approvals, oarlock_admin
does everything. With --read-only pages take no action.
Unless people sign in, the server listens on loopback addresses only, and each visitor has the rights of this user. To
open the pages on another machine, type there ` + "`ssh -L 7070:" + webListen + " HOST`" + `.
With --auth postgres people sign in with their login of the database, and have its rights. With htpasswd, proxy and
oidc, the settings web_readers, web_submitters and web_operators give people a role. web_reader_url, web_submitter_url
and web_operator_url are the database URLs of the logins that the pages use for each role.
Supervisors ask /livez and /readyz; programs ask /api/v1. See docs/web.md.`,
			examples: []string{
				"oarlock web", "oarlock web --listen 127.0.0.1:8080 --read-only", "oarlock web --url http://localhost:7070/oarlock",
				"oarlock web --auth postgres --listen :7070 --url https://runs.example.org",
			},
			exits: []exitNote{
				{exitOK, "Ctrl-C or TERM ended the command"},
				{exitError, "another program listens at the address, this user lacks a right that the command needs, or another error happened"},
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
		return nil, &failure{kind: general, err: fmt.Errorf("serve pages: %w", err), hint: "end the program that listens at this address, or name another port: --listen 127.0.0.1:7071"}
	}
	return listener, nil
}

// serveSite serves pages with sign-in until ctx ends. It opens the database logins that act for the users, and closes them at the
// end.
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

// frame sets in plan.options the version and the database that all pages show, and the log.
func (e *env) frame(plan *webPlan, link *pgx.ConnConfig) {
	o := &plan.options
	o.Version, o.Name, o.Log = buildVersion(debug.ReadBuildInfo()).Version, e.databaseName(link), e.log
}

// pageServer serves pages until the context of startPages ends.
type pageServer struct {
	stop  context.CancelFunc
	ended chan error // receives why it ended; nil: it was stopped
}

// startPages serves a store's pages on a listener until ctx ends, prints their address, and returns at once. It takes over the
// listener unless it returns an error. It sets plan.options.
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

// pageChecks makes the checks of `oarlock doctor` for a page. If the database cannot be reached, that is no error: the first check
// reports it.
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

// endPages stops a server and waits until it has ended. It does nothing for nil. It only logs the server's error, so that the
// command around it does not fail.
func (e *env) endPages(p *pageServer) {
	if p == nil {
		return
	}
	p.stop()
	if err := <-p.ended; err != nil {
		e.log.Error("pages ended", "error", err)
	}
}

// databaseName returns the words by which pages name the database.
func (e *env) databaseName(link *pgx.ConnConfig) string {
	if e.server != nil {
		return "private database"
	}
	return link.Database + " on " + link.Host
}

// loopbackAddress returns given, HOST:PORT, as an address to listen on, with 127.0.0.1 for an empty host. It returns a usageError
// for any other text, and for an address that other machines can reach, because these pages have no sign-in.
func loopbackAddress(given string) (string, error) {
	host, port, err := splitAddress(given)
	switch {
	case err != nil:
		return "", err
	case host == "":
		host = "127.0.0.1"
	case !web.IsLoopback(host):
		return "", &usageError{
			msg:  fmt.Sprintf("--listen: other machines may reach %s, and these pages ask for no password", host),
			hint: "listen on a loopback address such as " + webListen + " and connect by `ssh -L 7070:" + webListen + " HOST`; or let people sign in: `oarlock web --auth postgres`",
		}
	}
	return net.JoinHostPort(host, port), nil
}

// splitAddress splits HOST:PORT, where the port may be the name of a service. It returns a usageError for any other text.
func splitAddress(given string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(given)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	}
	if err != nil {
		return "", "", &usageError{msg: fmt.Sprintf("--listen: %q is not HOST:PORT", given), hint: "write an address like " + webListen}
	}
	return host, port, nil
}

// listenNear listens at an address, or at any free port of the same host if another program has the port. The caller must close the
// listener.
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

const (
	trustTimeout = 2 * time.Second

	loginConns  = 2 // connections of a login's pages, without the listening one
	asksForWord = "scram-sha-256,md5,password"
	wrongLogin  = "28" // class of SQLSTATEs for a refused login
)

// openLogin opens the store of a database login, and returns it with a doctor that examines the database with that login. The
// caller must close the store.
func (e *env) openLogin(ctx context.Context, c queue.Config) (web.Login, error) {
	c.OwnSchema = true
	store, err := queue.Open(ctx, c)
	if err != nil {
		return web.Login{}, err
	}
	return web.Login{Store: store, Doctor: func(ctx context.Context) ([]web.Check, error) { return e.pageChecks(ctx, c.URL) }}, nil
}

// connectLogin opens the store of a login with the password that a user typed. Postgres must check the password, since a server
// that trusts this program's address would accept any: connectLogin returns web.ErrTrusted then, and web.ErrWrongLogin for a wrong
// password. Check of the login tries the password again.
func (e *env) connectLogin(ctx context.Context, name, password string) (web.Login, error) {
	address, _, err := e.database(ctx)
	if err != nil {
		return web.Login{}, err
	}
	address, err = asLogin(address, name, password)
	if err != nil {
		return web.Login{}, err
	}
	if err := askedForPassword(ctx, address); err != nil {
		return web.Login{}, err
	}
	login, err := e.openLogin(ctx, queue.Config{URL: address, MaxConns: loginConns})
	login.Check = func(ctx context.Context) error { return askedForPassword(ctx, address) }
	return login, err
}

// askedForPassword connects once, and requires that the server checks the password. It returns web.ErrTrusted if the server
// asks for none, and web.ErrWrongLogin if the server refuses.
func askedForPassword(ctx context.Context, address string) error {
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		return web.ErrWrongLogin // the error contains the password
	}
	config.RequireAuth = asksForWord
	conn, err := pgconn.ConnectConfig(ctx, config)
	if isWrongLogin(err) {
		return web.ErrWrongLogin
	}
	if err != nil {
		return orTrusted(ctx, config, fmt.Errorf("connect: %w", err))
	}
	return conn.Close(ctx)
}

// orTrusted returns web.ErrTrusted if the server lets the same login in without a password, otherwise err. The driver's error
// for such a server has neither a type nor a code.
func orTrusted(ctx context.Context, config *pgconn.Config, err error) error {
	if isTrusted(ctx, config) {
		return web.ErrTrusted
	}
	return err
}

// isTrusted reports whether the server lets a login in without authentication. It reports false if the server cannot be reached. It
// removes the password from config.
func isTrusted(ctx context.Context, config *pgconn.Config) bool {
	config.RequireAuth, config.Password = "none", ""
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return false
	}
	_ = conn.Close(ctx)
	return true
}

// warnTrusted logs a warning if the server lets this program's login in without a password. Then it probably lets people in that
// way too, and none of them can sign in. It waits at most trustTimeout for the server.
func (e *env) warnTrusted(ctx context.Context) error {
	address, _, err := e.database(ctx)
	if err != nil {
		return err
	}
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		return nil // the first sign-in reports it
	}
	soon, cancel := context.WithTimeout(ctx, trustTimeout)
	defer cancel()
	if isTrusted(soon, config) {
		e.log.Warn(web.ErrTrusted.Error())
	}
	return nil
}

// isWrongLogin reports whether err is the database's refusal of a name or a password.
func isWrongLogin(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(refused.Code, wrongLogin)
}

// asLogin returns a database's address, a URL or keyword=value pairs, with another name and password.
func asLogin(address, name, password string) (string, error) {
	if !strings.Contains(address, "://") {
		escaped := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
		return fmt.Sprintf("%s user='%s' password='%s'", address, escaped.Replace(name), escaped.Replace(password)), nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("the address of the database cannot be read")
	}
	u.User = url.UserPassword(name, password)
	query := u.Query() // may name a user too
	query.Del("user")
	query.Del("password")
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// ready returns nil if the database answers, even if it refuses the login. A supervisor asks for that at /readyz.
func (e *env) ready(ctx context.Context) error {
	address, _, err := e.database(ctx)
	if err != nil {
		return err
	}
	conn, err := pgconn.Connect(ctx, address)
	if isWrongLogin(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return conn.Close(ctx)
}

// reloadedPair is a certificate that is read again when its file changes.
type reloadedPair struct {
	cert, key string
	log       *slog.Logger

	mu   sync.Mutex
	at   time.Time
	pair *tls.Certificate
}

// get returns the certificate, and reads it and its key again if the certificate's file has changed. If they cannot be read, it
// returns the old certificate and logs that; without an old one it returns an error.
func (p *reloadedPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := os.Stat(p.cert)
	if err == nil && p.pair != nil && info.ModTime().Equal(p.at) {
		return p.pair, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(p.cert, p.key); err == nil {
			p.pair, p.at = &pair, info.ModTime()
			return p.pair, nil
		}
	}
	if p.pair == nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	p.log.Warn("the certificate cannot be read again: the old certificate stays in use", "error", err)
	return p.pair, nil
}

// The ways in which users sign in to the pages.
const (
	authNone     = "none"
	authPostgres = "postgres"
	authPassword = "htpasswd"
	authProxy    = "proxy"
	authOpenID   = "oidc"
)

// webKeys declares the settings of the pages. Some of them have a flag of the web command.
func webKeys() []config.Key {
	keys := []config.Key{
		{Name: "web_listen", Flag: "--listen", Default: webListen, Usage: "serve at `HOST:PORT`; a loopback address unless people sign in"},
		{Name: "web_auth", Flag: "--auth", Default: authNone, Allowed: []string{authNone, authPostgres, authPassword, authProxy, authOpenID}, Usage: "let people sign in by `METHOD`"},
		{Name: "web_url", Flag: "--url", Check: aSite, Usage: "`URL` that browsers open; the paths of all pages begin with its path"},
		{Name: "web_read_only", Flag: "--read-only", Default: "false", Allowed: []string{"true", "false"}, Usage: "serve pages that only show, and take no action"},
		{Name: "web_readers", Shape: config.List, Usage: "people that may see everything, a list of names, group:NAME, or * for all people that sign in"},
		{Name: "web_submitters", Shape: config.List, Usage: "people that may ask for runs, a list like web_readers"},
		{Name: "web_operators", Shape: config.List, Usage: "people that may see and steer everything, a list like web_readers"},
		{Name: "web_reader_url", Show: pglink.Redact, Usage: "database URL of the login that the pages use for readers"},
		{Name: "web_submitter_url", Show: pglink.Redact, Usage: "database URL of the login that the pages use for submitters"},
		{Name: "web_operator_url", Show: pglink.Redact, Usage: "database URL of the login that the pages use for operators"},
		{Name: "web_htpasswd", Usage: "file of names and passwords, as `htpasswd -B` writes it"},
		{Name: "web_proxies", Shape: config.List, Check: aPrefix, Usage: "addresses (CIDR) of the proxies to trust: their headers name users"},
		{Name: "web_user_header", Default: "X-Forwarded-User", Usage: "header in which a proxy names the user"},
		{Name: "web_groups_header", Default: "X-Forwarded-Groups", Usage: "header in which a proxy names the user's groups, with commas between"},
		{Name: "web_oidc_issuer", Usage: "URL of the OpenID provider"},
		{Name: "web_oidc_client", Usage: "id of these pages at the provider"},
		{Name: "web_oidc_secret_file", Usage: "file with the secret of these pages at the provider"},
		{Name: "web_oidc_scopes", Shape: config.List, Implied: []string{"email", "profile"}, Usage: "scopes to ask the provider for besides openid"},
		{Name: "web_oidc_name", Default: "email", Allowed: []string{"email", "sub", "preferred_username", "upn"}, Usage: "claim that has a person's name; the claim email must be verified"},
		{Name: "web_oidc_groups", Default: "groups", Usage: "claim that lists a person's groups"},
		{Name: "web_tls_cert", Usage: "file with the certificate, to serve https"},
		{Name: "web_tls_key", Usage: "file with the key of the certificate"},
	}
	for i := range keys {
		keys[i].Env = []string{"OARLOCK_" + strings.ToUpper(keys[i].Name)}
	}
	return keys
}

// aSite returns an error unless text is a URL that browsers can open, without user, query or fragment.
func aSite(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("the URL is not like https://runs.example.org or https://example.org/oarlock")
	}
	return nil
}

// webPlan is what the settings decide about the pages.
type webPlan struct {
	listen  string
	auth    string
	url     *url.URL // where browsers reach the pages; nil: at the address on which they listen
	options web.Options
	tls     *tls.Config // nil: plain http
}

// webPlan returns what the settings decide about the pages. It returns an error for settings that would show pages or passwords to
// other users.
func (e *env) webPlan() (webPlan, error) {
	text := e.settings.Text
	p := webPlan{listen: text("web_listen"), auth: text("web_auth"), options: web.Options{ReadOnly: text("web_read_only") == "true"}}
	var err error
	if given := text("web_url"); given != "" {
		if p.url, err = url.Parse(given); err != nil {
			return p, &usageError{msg: "web_url: " + err.Error()}
		}
		p.options.Base = strings.TrimSuffix(p.url.Path, "/")
		p.options.Hosts = []string{p.url.Hostname()}
	}
	if p.auth == authNone {
		p.listen, err = loopbackAddress(p.listen)
	} else {
		p.listen, err = anyAddress(p.listen)
	}
	if err != nil {
		return p, err
	}
	if p.tls, err = e.webTLS(); err != nil {
		return p, err
	}
	return p, p.refuseOpen()
}

// refuseOpen returns a usageError for settings that would send passwords, or sign-in cookies, unencrypted over a network, and for a
// missing --url where sign-in needs it.
func (p *webPlan) refuseOpen() error {
	host, _, _ := net.SplitHostPort(p.listen)
	local := web.IsLoopback(host)
	switch {
	case p.auth == authNone || p.auth == authProxy && p.url != nil:
		return nil
	case p.url == nil && (p.auth == authOpenID || !local):
		return &usageError{msg: "--url is missing: give the address at which browsers reach the pages", hint: "give a URL like --url https://runs.example.org"}
	case p.url != nil && p.url.Scheme == "https" || p.url == nil && local || p.url != nil && web.IsLoopback(p.url.Hostname()):
		return nil
	}
	return &usageError{
		msg:  fmt.Sprintf("--url: passwords would reach %s unencrypted", p.url.Host),
		hint: "set web_tls_cert and web_tls_key, or put a proxy with https in front, and give the https address as --url",
	}
}

// isSecure reports whether browsers reach the pages by https.
func (p *webPlan) isSecure() bool {
	return p.tls != nil || p.url != nil && p.url.Scheme == "https"
}

// anyAddress returns given as an address to listen on, or a usageError if it is not HOST:PORT.
func anyAddress(given string) (string, error) {
	host, port, err := splitAddress(given)
	return net.JoinHostPort(host, port), err
}

// webTLS returns the configuration for https, or nil if the settings name no certificate. The certificate is read again when its
// file changes.
func (e *env) webTLS() (*tls.Config, error) {
	cert, key := e.settings.Text("web_tls_cert"), e.settings.Text("web_tls_key")
	if cert == "" && key == "" {
		return nil, nil
	}
	if cert == "" || key == "" {
		return nil, &usageError{msg: "only one of web_tls_cert and web_tls_key is set: set both settings, or none of the two"}
	}
	pair := &reloadedPair{cert: e.absolute(cert), key: e.absolute(key), log: e.log}
	if _, err := pair.get(nil); err != nil {
		return nil, &failure{kind: invalid, err: err, hint: "set web_tls_cert and web_tls_key to files in PEM that this user may read"}
	}
	return &tls.Config{GetCertificate: pair.get, MinVersion: tls.VersionTLS12}, nil
}

// signIn sets in o how users sign in, and which database login acts for them. It returns an error if a setting is missing that this
// needs. The caller must close the logins in o, also after an error.
func (e *env) signIn(ctx context.Context, p *webPlan, o *web.SiteOptions) error {
	for _, text := range e.settings.Value("web_proxies").Items {
		o.Proxies = append(o.Proxies, netip.MustParsePrefix(text))
	}
	switch p.auth {
	case authPostgres:
		o.Connect = e.connectLogin
		return e.warnTrusted(ctx)
	case authPassword:
		file := e.settings.Text("web_htpasswd")
		if file == "" {
			return lacksSetting("web_htpasswd", "the sign-in needs a file of names and passwords")
		}
		passwords, err := signin.ReadPasswords(e.absolute(file))
		if err != nil {
			return &failure{kind: invalid, err: err}
		}
		o.Passwords = passwords
	case authProxy:
		if len(o.Proxies) == 0 {
			return lacksSetting("web_proxies", "the sign-in needs the addresses of the proxies to trust")
		}
		o.Proxy = &signin.Proxy{Trusted: o.Proxies, UserHeader: e.settings.Text("web_user_header"), GroupsHeader: e.settings.Text("web_groups_header")}
	case authOpenID:
		if err := e.openID(p, o); err != nil {
			return err
		}
	}
	return e.mapRoles(ctx, o)
}

func lacksSetting(name, what string) error {
	return &usageError{msg: fmt.Sprintf("%s is not set: %s", name, what), hint: "set " + name + " in the settings file, or set the variable OARLOCK_" + strings.ToUpper(name)}
}

func (e *env) openID(p *webPlan, o *web.SiteOptions) error {
	for _, name := range []string{"web_oidc_issuer", "web_oidc_client", "web_oidc_secret_file"} {
		if e.settings.Text(name) == "" {
			return lacksSetting(name, "sign-in by OpenID needs the provider, the client and the client's secret")
		}
	}
	secret, err := os.ReadFile(e.absolute(e.settings.Text("web_oidc_secret_file")))
	if err != nil {
		return &failure{kind: invalid, err: fmt.Errorf("read the provider's secret: %w", err)}
	}
	scopes := e.settings.Value("web_oidc_scopes")
	if scopes.Items == nil {
		scopes.Items = scopes.Key.Implied
	}
	o.Provider = signin.NewProvider(signin.ProviderConfig{
		Issuer: e.settings.Text("web_oidc_issuer"), ClientID: e.settings.Text("web_oidc_client"), ClientSecret: strings.TrimSpace(string(secret)),
		Callback: strings.TrimSuffix(p.url.String(), "/") + "/login/callback", Scopes: scopes.Items,
		NameClaim: e.settings.Text("web_oidc_name"), GroupsClaim: e.settings.Text("web_oidc_groups"),
	})
	return nil
}

// mapRoles sets o.Roles, and opens in o.Logins a database login for each role that at least one user has. It checks that each login
// has the rights of its role. It returns an error if no user has a role.
func (e *env) mapRoles(ctx context.Context, o *web.SiteOptions) error {
	o.Roles = signin.Roles{Reader: e.settings.Value("web_readers").Items, Submitter: e.settings.Value("web_submitters").Items, Operator: e.settings.Value("web_operators").Items}
	o.Logins = map[signin.Role]web.Login{}
	for role, people := range map[signin.Role][]string{signin.Reader: o.Roles.Reader, signin.Submitter: o.Roles.Submitter, signin.Operator: o.Roles.Operator} {
		if len(people) == 0 {
			continue
		}
		name := "web_" + string(role) + "_url"
		address := e.settings.Text(name)
		if address == "" {
			return lacksSetting(name, "the server needs the database URL of a login for the people in web_"+string(role)+"s")
		}
		login, err := e.openLogin(ctx, queue.Config{URL: address})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		o.Logins[role] = login
		if err := e.checkLogin(ctx, role, name, login.Store); err != nil {
			return err
		}
	}
	if len(o.Logins) == 0 {
		return lacksSetting("web_readers", "give at least one person a role, in web_readers, web_submitters or web_operators")
	}
	return nil
}

// checkLogin returns an error if the login of a store has more rights than its role, or fewer. It warns if records of the login's
// requests will not name the people behind them. setting names the login in messages.
func (e *env) checkLogin(ctx context.Context, role signin.Role, setting string, store *queue.Store) error {
	rights, err := store.Rights(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	want := map[signin.Role]queue.Rights{signin.Reader: {Read: true}, signin.Submitter: {Submit: true, Approve: true}, signin.Operator: {Read: true, Submit: true, Approve: true, Admin: true}}[role]
	if rights.Read != want.Read || rights.Submit != want.Submit || rights.Approve != want.Approve || rights.Admin != want.Admin {
		return &failure{
			kind: invalid, err: fmt.Errorf("%s: the login %s has more or fewer rights than a %s", setting, rights.Login, role),
			hint: "grant the login oarlock_web and one role: oarlock_read for readers, oarlock_submit for submitters, oarlock_admin for operators",
		}
	}
	if !rights.Names {
		e.log.Warn("records will not name the people behind requests: grant oarlock_web to the login", "setting", setting, "login", rights.Login)
	}
	return nil
}

// address returns the URL that browsers open: --url if people sign in and it is given, otherwise the address on which the pages
// listen.
func (p *webPlan) address(listening net.Addr) string {
	if p.url != nil && p.auth != authNone {
		return strings.TrimSuffix(p.url.String(), "/") + "/"
	}
	scheme := "http"
	if p.tls != nil {
		scheme = "https"
	}
	return scheme + "://" + listening.String() + p.options.Base + "/"
}
