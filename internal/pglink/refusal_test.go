package pglink_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// Messages of PgBouncer that are hard to provoke, or that only other versions send.
func TestRefusalOf_KnowsTheWordsOfPgBouncer(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]struct {
		login, lasts bool
		hint         string
	}{
		"query_wait_timeout": {hint: "default_pool_size = "},
		"client connections exceeded (max_db_client_connections)":                          {hint: "max_db_client_connections = 0"},
		"client connections exceeded (max_user_client_connections)":                        {hint: "max_user_client_connections = 0"},
		"server login has been failing, try again later (server_login_retry)":              {hint: "DATABASE = host=SERVER"},
		"server login has been failing, cached error: connect failed (server_login_retry)": {hint: "DATABASE = host=SERVER"},
		`password authentication failed for user "ana"`:                                    {login: true, lasts: true, hint: "the server refuses the password"},
		"server login failed: wrong password type":                                         {login: true, lasts: true, hint: "auth_file"},
		`role "ana" does not exist`:                                                        {login: true, lasts: true, hint: "no such role"},
		`database "app" is disabled`:                                                       {hint: "ENABLE DATABASE"},
		"SSL required":                                                                     {lasts: true, hint: "client_tls_sslmode = prefer"},
		"unsupported startup parameter in options: jit":                                    {lasts: true, hint: "ignore_startup_parameters = extra_float_digits,jit"},
	} {
		got := pglink.RefusalOf(&pgconn.PgError{Code: "08P01", Message: message})
		if got == nil || got.Login != want.login || got.Lasts != want.lasts || !strings.Contains(got.Hint, want.hint) {
			t.Errorf("%s: %+v, want %+v", message, got, want)
		}
	}
	for _, other := range []*pgconn.PgError{{Code: "08P01", Message: "bouncer config error"}, {Code: "28P01", Message: "password authentication failed"}} {
		if got := pglink.RefusalOf(other); got != nil {
			t.Errorf("%v: %+v, want nothing", other, got)
		}
	}
}

func TestClassify_WaitsForNoPoolerThatRefusesTheLogin(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]pglink.Class{
		"SASL authentication failed":                    pglink.Permanent,
		"no such user":                                  pglink.Permanent,
		"no such database: app":                         pglink.Permanent,
		"no more connections allowed (max_client_conn)": pglink.SessionLost,
	} {
		if got := pglink.Classify(&pgconn.PgError{Code: "08P01", Message: message}); got != want {
			t.Errorf("%s: %v, want %v", message, got, want)
		}
	}
}

// The server reports which limit refused the connection, so its messages need not be in English.
func TestCrowdedHint_NamesTheLimitThatIsReached(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	limited, other, admin := db.User(t, "limited"), db.User(t, "other"), db.Conn(t)
	for _, c := range []struct{ limit, of, url, want string }{
		{"ALTER ROLE %s CONNECTION LIMIT 0", db.RoleName("limited"), limited, "ALTER ROLE … CONNECTION LIMIT"},
		{"ALTER DATABASE %s CONNECTION LIMIT 0", db.Name, other, "ALTER DATABASE … CONNECTION LIMIT"},
	} {
		if _, err := admin.Exec(t.Context(), fmt.Sprintf(c.limit, pgx.Identifier{c.of}.Sanitize())); err != nil {
			t.Fatal(err)
		}
		_, err := pglink.Connect(t.Context(), c.url, pglink.Options{})
		if got := pglink.CrowdedHint(err); !strings.Contains(got, c.want) {
			t.Errorf("%v: %s, want %s", err, got, c.want)
		}
	}
	if got := pglink.CrowdedHint(&pgconn.PgError{Code: "53300", Routine: "InitProcess"}); !strings.Contains(got, "max_connections") {
		t.Errorf("a full server: %s", got)
	}
}
