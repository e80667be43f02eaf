package pgtest

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// poolers returns the stand-in and the real pooler, in a mode and of a size. The real one comes first, because it may
// skip the test.
func poolers(t *testing.T, address, mode string, size int) map[string]string {
	t.Helper()
	return map[string]string{
		"real":     PgBouncer{Mode: mode, Size: size}.Start(t, address),
		"stand-in": Pooler{Size: size, Sessions: mode == "session"}.Start(t, address),
	}
}

func through(t *testing.T, address string, params ...string) (*pgx.Conn, error) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery += "&" + strings.Join(params, "&")
	conn, err := pgx.Connect(t.Context(), u.String())
	if err == nil {
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
	}
	return conn, err
}

func TestPooler_RefusesWhatPgBouncerRefuses(t *testing.T) {
	t.Parallel()
	for name, address := range poolers(t, New(t).URL, "session", 1) {
		for param, want := range map[string]string{
			"lock_timeout=3": "unsupported startup parameter: lock_timeout", "options=-cjit%3Doff": "unsupported startup parameter: options",
			"application_name=a": "", "timezone=UTC": "",
		} {
			_, err := through(t, address, param)
			if got := text(err); want == "" && err != nil || !strings.Contains(got, want) {
				t.Errorf("%s: %s: %s, want %q", name, param, got, want)
			}
			if want != "" && pgCode(err) != "08P01" {
				t.Errorf("%s: %s: %s", name, param, pgCode(err))
			}
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestPooler_LendsAsPgBouncerDoes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"session", "transaction"} {
		for name, address := range poolers(t, New(t).URL, mode, 2) {
			one, err := through(t, address, "default_query_exec_mode=exec")
			if err != nil {
				t.Fatal(err)
			}
			before := pid(t, one)
			if before == one.PgConn().PID() {
				t.Errorf("%s, %s: it announced the process that serves", mode, name)
			}
			other, err := through(t, address, "default_query_exec_mode=exec")
			if err != nil {
				t.Fatal(err)
			}
			tx, err := other.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held := pid(t, other)
			if after := pid(t, one); (before == held || before != after) != (mode == "transaction") {
				t.Errorf("%s, %s: served by %d, then by %d while another held %d", mode, name, before, after, held)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

func pid(t *testing.T, conn *pgx.Conn) (pid uint32) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// In session mode no setting of a client is left for the next client.
func TestPooler_LeavesNothingOfASession(t *testing.T) {
	t.Parallel()
	for name, address := range poolers(t, New(t).URL, "session", 1) {
		first, err := through(t, address)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, first, "SET lock_timeout = '7s'")
		if err := first.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		next, err := through(t, address)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := next.QueryRow(t.Context(), "SHOW lock_timeout").Scan(&got); err != nil || got != "0" {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}
