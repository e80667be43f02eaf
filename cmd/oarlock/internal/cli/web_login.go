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

	loginConns  = 2 // connections of a login's pages, without the listening one
	asksForWord = "scram-sha-256,md5,password"
	wrongLogin  = "28" // class of SQLSTATEs for a refused login
)

// openLogin opens the store of a database login, and a doctor that examines the database with that login.
func (e *env) openLogin(ctx context.Context, c queue.Config) (web.Login, error) {
	c.OwnSchema = true
	store, err := queue.Open(ctx, c)
	if err != nil {
		return web.Login{}, err
	}
	return web.Login{Store: store, Doctor: func(ctx context.Context) ([]web.Check, error) { return e.pageChecks(ctx, c.URL) }}, nil
}

// connectLogin opens the store of a login with the password that a user typed. Postgres must check the password: a server
// that trusts this program's address would accept any.
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

// isTrusted reports whether the server lets a login in without authentication.
func isTrusted(ctx context.Context, config *pgconn.Config) bool {
	config.RequireAuth, config.Password = "none", ""
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return false
	}
	_ = conn.Close(ctx)
	return true
}

// warnTrusted warns if the server lets this program's login in without a password. Then it probably lets people in that way
// too, and none of them can sign in. warnTrusted does not wait for a server that is away.
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

// isWrongLogin reports whether the database refused the name or the password.
func isWrongLogin(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(refused.Code, wrongLogin)
}

// asLogin returns an address with another name and password.
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

// ready returns nil if the database answers, even if it refuses the login.
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

// get returns the certificate. It keeps the old pair if the new one cannot be read.
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
