package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// RolesError means that the caller may not create or grant the roles. SQL has the statements that an administrator may run instead.
type RolesError struct {
	SQL string
	Err error
}

func (e *RolesError) Error() string {
	return fmt.Sprintf("create the roles: %v: let an administrator of the server run this in the same database:\n\n%s", e.Err, e.SQL)
}

func (e *RolesError) Unwrap() error { return e.Err }

const migratorLine = "migrator name := CURRENT_USER;"

// rolesParts are the statements of Roles in the order in which they run.
var rolesParts = []string{setupSQL("path"), setupSQL("roles"), schemaSQL, historyTableSQL, setupSQL("owner"), sealSQL, grantsSQL}

// RolesSQL returns the statements of Roles, for an administrator to read and to run with psql. The user that runs them may migrate
// afterwards. The SQL in a *RolesError gives that right to the user of the failed call instead.
func RolesSQL() string { return rolesSQL("CURRENT_USER") }

func rolesSQL(migrator string) string {
	text := strings.Join(rolesParts, "\n")
	text = strings.Replace(text, migratorLine, "migrator name := "+migrator+";", 1)
	return "BEGIN;\n\n" + text + "\nCOMMIT;\n"
}

// Roles creates the group roles oarlock_owner, _worker, _submit, _read, _approve, _admin and _web, gives the schemas to the
// owner, and grants each role the rights that it needs. If roles exist already, it adds the missing ones and mends rights. It
// is a separate step, because managed servers may forbid it: it then returns a *RolesError with the SQL for an administrator.
func Roles(ctx context.Context, url string, opts ...Option) error {
	d, err := open(ctx, url, opts)
	if err != nil {
		return fmt.Errorf("create the roles: %w", err)
	}
	defer d.close()
	if _, err := d.knownSchema(ctx); err != nil {
		return err
	}
	err = pglink.Do(ctx, func(ctx context.Context) error { return d.session().underLock(ctx, createRoles) }, repeat)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42501" {
		return &RolesError{SQL: rolesSQL(quoteLiteral(d.user)), Err: err}
	}
	if err != nil {
		return fmt.Errorf("create the roles: %w", err)
	}
	return nil
}

func createRoles(ctx context.Context, conn *sql.Conn) error {
	return execTx(ctx, conn, rolesParts...)
}

func quoteLiteral(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
