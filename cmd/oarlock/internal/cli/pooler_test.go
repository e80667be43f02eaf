package cli

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// A pooler refuses clients for its own reasons. Each refusal names the line of its configuration that ends it.
func TestPooler_RefusalsNameTheLineThatEndsThem(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	db := pgtest.Empty(t)
	ownURL, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	as := func(user, password, database string) func(*url.URL) {
		return func(u *url.URL) { u.User, u.Path = url.UserPassword(user, password), "/"+database }
	}
	user := ownURL.User.Username()
	cases := map[string]struct {
		pooler  pgtest.PgBouncer
		change  func(*url.URL) // applied to the URL through the pooler
		code    string
		message string
		hint    string
	}{
		"unknown database": {pgtest.PgBouncer{Named: true}, as(user, "", "nosuch"), "unreachable", "no such database: nosuch", "nosuch = host=SERVER port=5432"},
		"unknown database of an unusual name": {
			pgtest.PgBouncer{Named: true}, as(user, "", "no-such"), "unreachable", "no such database: no-such", `"no-such" = host=SERVER port=5432`,
		},
		"unknown user, trusted":  {pgtest.PgBouncer{}, as("ana", "", db.Name), "auth_failed", `"trust" authentication failed`, `"ana" "PASSWORD"`},
		"unknown user":           {pgtest.PgBouncer{Lines: []string{"auth_type = plain"}}, as("ana", "x", db.Name), "auth_failed", "password authentication failed", `"ana" "PASSWORD"`},
		"wrong password":         {pgtest.PgBouncer{Lines: []string{"auth_type = scram-sha-256"}}, as(user, "wrong", db.Name), "auth_failed", "authentication failed", "DATABASE_URL"},
		"the server's database":  {pgtest.PgBouncer{}, as(user, "", "nosuch"), "unreachable", `database "nosuch" does not exist`, "createdb nosuch"},
		"no line for this login": {pgtest.PgBouncer{Lines: []string{"auth_type = hba", "auth_hba_file = /dev/null"}}, func(*url.URL) {}, "auth_failed", "login rejected", "scram-sha-256"},
		"no room for one client": {pgtest.PgBouncer{Lines: []string{"max_client_conn = 0"}}, func(*url.URL) {}, "unreachable", "no more connections allowed", "max_client_conn = 1000"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, err := url.Parse(c.pooler.Start(t, db.URL))
			if err != nil {
				t.Fatal(err)
			}
			c.change(u)
			got := invoke(t, testEnv(), "doctor", "--database-url", u.String(), "-o", "json")
			_, said, _ := strings.Cut(got.stderr, "{")
			said = strings.ReplaceAll(said, `\"`, `"`)
			for _, want := range []string{`"code":"` + c.code + `"`, c.message, c.hint} {
				if !strings.Contains(said, want) {
					t.Errorf("exit %d, %s\nlacks %s", got.exit, said, want)
				}
			}
			if strings.Contains(said, "is the server running there") {
				t.Errorf("a pooler answered: %s", said)
			}
		})
	}
}

// While another client holds the only connection of the pool, the next client learns how to get a larger pool.
func TestPooler_SaysHowToGetALargerPool(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	through := pgtest.PgBouncer{Size: 1, Lines: []string{"query_wait_timeout = 1"}}.Start(t, pgtest.New(t).URL)
	first, err := pgx.Connect(t.Context(), through)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close(t.Context())
	if err := first.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := invoke(t, testEnv(), "list", "--database-url", through)
	if got.exit != exitUnreachable || !strings.Contains(got.stderr, "set default_pool_size = 40 in the pooler's file; if the file also has pool_size") {
		t.Errorf("exit %d\n%s", got.exit, got.stderr)
	}
}
