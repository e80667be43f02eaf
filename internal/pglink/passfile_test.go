package pglink_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// Parse ignores a password file that other users may read, wherever it is named. psql does the same.
func TestParse_IgnoresAPasswordFileThatOthersMayRead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, ".pgpass")
	if err := os.WriteFile(file, []byte("db:5432:app:ana:hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGPASSWORD", "")
	for name, c := range map[string]struct{ home, variable, database string }{
		"home":               {dir, "", "postgres://ana@db:5432/app"},
		"home, with a query": {dir, "", "postgres://ana@db:5432/app?sslmode=disable"},
		"variable":           {"/nowhere", file, "host=db user=ana dbname=app"},
		"URL":                {"/nowhere", "", "postgresql://ana@db:5432/app?passfile=" + file},
		"keyword":            {"/nowhere", "", "host=db user=ana dbname=app passfile='" + file + "'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", c.home)
			t.Setenv("PGPASSFILE", c.variable)
			for mode, want := range map[os.FileMode]string{0o600: "hunter2", 0o640: "", 0o644: "", 0o602: ""} {
				if err := os.Chmod(file, mode); err != nil {
					t.Fatal(err)
				}
				link, err := pglink.Parse(c.database, pglink.Options{})
				if err != nil || link.Password != want {
					t.Errorf("mode %o: password %q, %v; want %q", mode, link.Password, err, want)
				}
				if open := pglink.OpenPassfile(c.database); (open != "") != (want == "") {
					t.Errorf("mode %o: open is %q", mode, open)
				}
			}
		})
	}
}
