package pgtest

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/migrations"
)

const password = "pass-word" // of every login; tests look for it in places that must not show it

// Login makes a login with only this one of Oarlock's roles, and returns its URL. See [DB.User].
func (d *DB) Login(tb testing.TB, role string) string {
	tb.Helper()
	return d.User(tb, strings.TrimPrefix(role, "oarlock_"), role)
}

// User makes a login with only these of Oarlock's roles, and returns its URL. The login is called RoleName(name), and
// dropped with the database.
func (d *DB) User(tb testing.TB, name string, roles ...string) string {
	tb.Helper()
	if len(roles) > 0 {
		d.makeRoles(tb)
	}
	login := ident(d.RoleName(name))
	create := "CREATE ROLE " + login + " LOGIN PASSWORD '" + verifier(password) + "'"
	if len(roles) > 0 {
		create += " IN ROLE " + strings.Join(roles, ", ")
	}
	if err := d.exec(tb, create); err != nil {
		tb.Fatalf("make a login: %v", err)
	}
	d.mu.Lock()
	d.logins = append(d.logins, login)
	d.mu.Unlock()
	u, err := url.Parse(d.URL)
	if err != nil {
		tb.Fatal(err)
	}
	u.User = url.UserPassword(d.RoleName(name), password)
	return u.String()
}

// exec uses the connection of the shared server. For a server of the test's own it opens a connection.
func (d *DB) exec(tb testing.TB, statement string) error {
	if d.server != nil {
		return d.server.exec(tb.Context(), statement)
	}
	_, err := d.Conn(tb).Exec(tb.Context(), statement)
	return err
}

// RoleName returns the full name of a login. It contains the name of the database, because roles belong to the whole
// server.
func (d *DB) RoleName(name string) string { return name + "_" + d.Name }

func (d *DB) makeRoles(tb testing.TB) {
	tb.Helper()
	d.roles.Do(func() {
		if err := migrations.Roles(tb.Context(), d.URL); err != nil {
			tb.Fatalf("make the roles: %v", err)
		}
	})
}

// verifier returns what a server stores of a password (RFC 5803), derived in one round. The server itself would use 4096
// rounds, and so would each connection of each test: a fifth of the cost of a connection.
func verifier(password string) string {
	salt := []byte("salt of tests...")
	salted, err := pbkdf2.Key(sha256.New, password, salt, 1, sha256.Size)
	if err != nil {
		panic(err) // the length of the key is wrong
	}
	sign := func(what string) []byte {
		h := hmac.New(sha256.New, salted)
		h.Write([]byte(what))
		return h.Sum(nil)
	}
	stored, encode := sha256.Sum256(sign("Client Key")), base64.StdEncoding.EncodeToString
	return "SCRAM-SHA-256$1:" + encode(salt) + "$" + encode(stored[:]) + ":" + encode(sign("Server Key"))
}
