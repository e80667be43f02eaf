package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web"
	"github.com/oarlock-dev/oarlock/web/signin"
)

// The ways in which users sign in to the pages.
const (
	authNone     = "none"
	authPostgres = "postgres"
	authPassword = "htpasswd"
	authProxy    = "proxy"
	authOpenID   = "oidc"
)

// webKeys declares the settings of the pages. They have flags of the web command.
func webKeys() []config.Key {
	keys := []config.Key{
		{Name: "web_listen", Flag: "--listen", Default: webListen, Usage: "serve at `HOST:PORT`; a loopback address unless people sign in"},
		{Name: "web_auth", Flag: "--auth", Default: authNone, Allowed: []string{authNone, authPostgres, authPassword, authProxy, authOpenID}, Usage: "have people sign in by `METHOD`"},
		{Name: "web_url", Flag: "--url", Check: aSite, Usage: "`URL` that browsers open; its path is put before those of all pages"},
		{Name: "web_read_only", Flag: "--read-only", Default: "false", Allowed: []string{"true", "false"}, Usage: "offer and take no action"},
		{Name: "web_readers", Shape: config.List, Usage: "who sees everything: names, group:NAME, or * for all that sign in"},
		{Name: "web_submitters", Shape: config.List, Usage: "who asks for runs"},
		{Name: "web_operators", Shape: config.List, Usage: "who sees and steers everything"},
		{Name: "web_reader_url", Show: pglink.Redact, Usage: "database URL of the login that acts for readers"},
		{Name: "web_submitter_url", Show: pglink.Redact, Usage: "database URL of the login that acts for submitters"},
		{Name: "web_operator_url", Show: pglink.Redact, Usage: "database URL of the login that acts for operators"},
		{Name: "web_htpasswd", Usage: "file of names and passwords, as `htpasswd -B` writes it"},
		{Name: "web_proxies", Shape: config.List, Check: aPrefix, Usage: "addresses (CIDR) of proxies whose headers are believed"},
		{Name: "web_user_header", Default: "X-Forwarded-User", Usage: "header that a proxy names the user in"},
		{Name: "web_groups_header", Default: "X-Forwarded-Groups", Usage: "header that a proxy names the user's groups in, with commas between"},
		{Name: "web_oidc_issuer", Usage: "URL of the OpenID provider"},
		{Name: "web_oidc_client", Usage: "id of these pages at the provider"},
		{Name: "web_oidc_secret_file", Usage: "file with the secret of these pages at the provider"},
		{Name: "web_oidc_scopes", Shape: config.List, Implied: []string{"email", "profile"}, Usage: "what to ask the provider for besides openid"},
		{Name: "web_oidc_name", Default: "email", Allowed: []string{"email", "sub", "preferred_username", "upn"}, Usage: "claim that is a person's name; email has to be verified"},
		{Name: "web_oidc_groups", Default: "groups", Usage: "claim that lists a person's groups"},
		{Name: "web_tls_cert", Usage: "file with the certificate, to serve https"},
		{Name: "web_tls_key", Usage: "file with the key of the certificate"},
	}
	for i := range keys {
		keys[i].Env = []string{"OARLOCK_" + strings.ToUpper(keys[i].Name)}
	}
	return keys
}

// aSite checks an address that browsers can open.
func aSite(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("this is not like https://runs.example.org or https://example.org/oarlock")
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

// webPlan reads the settings, and refuses settings that would show pages or passwords to other users.
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

// refuseOpen refuses settings that would send passwords, or sign-in cookies, unencrypted over a network.
func (p *webPlan) refuseOpen() error {
	host, _, _ := net.SplitHostPort(p.listen)
	local := web.IsLoopback(host)
	switch {
	case p.auth == authNone || p.auth == authProxy && p.url != nil:
		return nil
	case p.url == nil && (p.auth == authOpenID || !local):
		return &usageError{msg: "--url: it is not said at which address browsers reach the pages", hint: "like --url https://runs.example.org"}
	case p.url != nil && p.url.Scheme == "https" || p.url == nil && local || p.url != nil && web.IsLoopback(p.url.Hostname()):
		return nil
	}
	return &usageError{
		msg:  fmt.Sprintf("--url: passwords would travel to %s unencrypted", p.url.Host),
		hint: "serve https with web_tls_cert and web_tls_key, or behind a proxy that does, and give its https address",
	}
}

// isSecure reports whether browsers reach the pages by https.
func (p *webPlan) isSecure() bool {
	return p.tls != nil || p.url != nil && p.url.Scheme == "https"
}

// anyAddress checks an address to listen on.
func anyAddress(given string) (string, error) {
	host, port, err := splitAddress(given)
	return net.JoinHostPort(host, port), err
}

// webTLS returns nil for http. The certificate is read again when its file changes.
func (e *env) webTLS() (*tls.Config, error) {
	cert, key := e.settings.Text("web_tls_cert"), e.settings.Text("web_tls_key")
	if cert == "" && key == "" {
		return nil, nil
	}
	if cert == "" || key == "" {
		return nil, &usageError{msg: "web_tls_cert and web_tls_key are given together or not at all"}
	}
	pair := &reloadedPair{cert: e.absolute(cert), key: e.absolute(key), log: e.log}
	if _, err := pair.get(nil); err != nil {
		return nil, &failure{kind: invalid, err: err, hint: "web_tls_cert and web_tls_key name files in PEM that this user may read"}
	}
	return &tls.Config{GetCertificate: pair.get, MinVersion: tls.VersionTLS12}, nil
}

// signIn fills in how users sign in, and which database login acts for them.
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
			return lacksSetting("web_htpasswd", "the file of names and passwords")
		}
		passwords, err := signin.ReadPasswords(e.absolute(file))
		if err != nil {
			return &failure{kind: invalid, err: err}
		}
		o.Passwords = passwords
	case authProxy:
		if len(o.Proxies) == 0 {
			return lacksSetting("web_proxies", "the addresses whose word counts")
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
	return &usageError{msg: fmt.Sprintf("%s is not given: %s", name, what), hint: "in the settings file, or as OARLOCK_" + strings.ToUpper(name)}
}

func (e *env) openID(p *webPlan, o *web.SiteOptions) error {
	for _, name := range []string{"web_oidc_issuer", "web_oidc_client", "web_oidc_secret_file"} {
		if e.settings.Text(name) == "" {
			return lacksSetting(name, "without it the provider is not known, or does not know these pages")
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

// mapRoles opens a database login for each role that at least one user has.
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
			return lacksSetting(name, "the login of the database that acts for the people of web_"+string(role)+"s")
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
		return lacksSetting("web_readers", "nobody would have a role, in web_readers, web_submitters or web_operators")
	}
	return nil
}

// checkLogin refuses a login that has more rights than its role, or too few to act for it.
func (e *env) checkLogin(ctx context.Context, role signin.Role, setting string, store *queue.Store) error {
	rights, err := store.Rights(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	want := map[signin.Role]queue.Rights{signin.Reader: {Read: true}, signin.Submitter: {Submit: true, Approve: true}, signin.Operator: {Read: true, Submit: true, Approve: true, Admin: true}}[role]
	if rights.Read != want.Read || rights.Submit != want.Submit || rights.Approve != want.Approve || rights.Admin != want.Admin {
		return &failure{
			kind: invalid, err: fmt.Errorf("%s: the login %s may more or less than a %s", setting, rights.Login, role),
			hint: "grant it one role: oarlock_read to a reader, oarlock_submit to a submitter, oarlock_admin to an operator; and oarlock_web",
		}
	}
	if !rights.Names {
		e.log.Warn("records will not say who asked: grant oarlock_web to the login", "setting", setting, "login", rights.Login)
	}
	return nil
}

// address returns where browsers reach the pages.
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
