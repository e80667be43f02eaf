package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web"
)

const (
	trustTimeout = 2 * time.Second

	loginConns  = 2 // connections of a login's pages, besides the one that listens
	asksForWord = "scram-sha-256,md5,password"
	wrongLogin  = "28" // begins the codes of a refused login
)

// openLogin opens the store of a login of the database, and what examines the database for it.
func (e *env) openLogin(ctx context.Context, c queue.Config) (web.Login, error) {
	c.OwnSchema = true
	store, err := queue.Open(ctx, c)
	if err != nil {
		return web.Login{}, err
	}
	return web.Login{Store: store, Doctor: func(ctx context.Context) ([]web.Check, error) { return e.pageChecks(ctx, c.URL) }}, nil
}

// connectLogin opens the store of a login whose password somebody gave. Postgres has to ask for the password: a server that trusts
// the address of this program would take any.
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

// askedForPassword connects once, and wants the server to check the password. It says web.ErrTrusted of a server that asks for none.
func askedForPassword(ctx context.Context, address string) error {
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		return web.ErrWrongLogin // it has the password in it
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

// orTrusted is web.ErrTrusted where the server lets the same login in without a password, else the error. The driver's refusal of such a
// server has no type or code.
func orTrusted(ctx context.Context, config *pgconn.Config, err error) error {
	if isTrusted(ctx, config) {
		return web.ErrTrusted
	}
	return err
}

// isTrusted reports whether the server lets a login in without asking it for anything.
func isTrusted(ctx context.Context, config *pgconn.Config) bool {
	config.RequireAuth, config.Password = "none", ""
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return false
	}
	_ = conn.Close(ctx)
	return true
}

// warnTrusted warns where the server lets the login of this program in without a password: it is likely to let in people so, too, and then
// none of them can sign in. A server that is away is not waited for.
func (e *env) warnTrusted(ctx context.Context) error {
	address, _, err := e.database(ctx)
	if err != nil {
		return err
	}
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		return nil // the first sign-in says it
	}
	soon, cancel := context.WithTimeout(ctx, trustTimeout)
	defer cancel()
	if isTrusted(soon, config) {
		e.log.Warn(web.ErrTrusted.Error())
	}
	return nil
}

// isWrongLogin reports whether the database answered that it takes no such name or password.
func isWrongLogin(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(refused.Code, wrongLogin)
}

// asLogin is an address with another name and password.
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
	query := u.Query() // which may name a user, too
	query.Del("user")
	query.Del("password")
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// ready reports whether the database answers, if only to refuse a login.
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

// get keeps the old pair where the new one cannot be read.
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
	p.log.Warn("the certificate cannot be read again: the old one stays in force", "error", err)
	return p.pair, nil
}
