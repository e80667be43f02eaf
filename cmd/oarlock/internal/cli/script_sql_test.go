package cli

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"
)

// speaking are the commands with which a script sends SQL, as an application does:
//
//	as NAME      log in as this user from now on; its name ends with the database's name, and its password is s
//	sql FILE     run the one statement of a file, and print its rows: values with | between them
func (d *databases) speaking() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){"as": as, "sql": d.sql}
}

func as(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: as NAME")
	}
	u, err := url.Parse(ts.Getenv("DATABASE_URL"))
	ts.Check(err)
	u.User = url.UserPassword(args[0]+"_"+strings.TrimPrefix(u.Path, "/"), "s")
	ts.Setenv("DATABASE_URL", u.String())
}

func (d *databases) sql(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: sql FILE")
	}
	stdout, stderr := ts.Stdout(), ts.Stderr() // asking for them empties them
	conn, err := pgx.Connect(d.tb.Context(), ts.Getenv("DATABASE_URL"))
	ts.Check(err)
	defer conn.Close(d.tb.Context())
	rows, _ := conn.Query(d.tb.Context(), ts.ReadFile(args[0])) // rows has the same error
	for rows.Next() {
		values, err := rows.Values()
		ts.Check(err)
		line := make([]string, len(values))
		for i, v := range values {
			line[i] = fmt.Sprint(v)
		}
		fmt.Fprintln(stdout, strings.Join(line, "|"))
	}
	err = rows.Err()
	if err != nil {
		fmt.Fprintln(stderr, err)
	}
	if neg != (err != nil) {
		ts.Fatalf("%s: %v", args[0], err)
	}
}
