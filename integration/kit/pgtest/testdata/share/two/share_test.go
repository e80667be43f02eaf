// Package two tells which server its tests run on; the other package beside it does the same.
package two

import (
	"os"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

func TestTellServer(t *testing.T) {
	db := pgtest.Empty(t)
	var pid string
	row := db.Conn(t).QueryRow(t.Context(), "SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1) || ' ' || current_setting('data_directory')")
	if err := row.Scan(&pid); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.Getenv("OARLOCK_TEST_TELL")+"/two", []byte(pid), 0o600); err != nil {
		t.Fatal(err)
	}
}
