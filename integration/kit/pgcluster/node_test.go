package pgcluster_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/migrations"
)

func exec(t *testing.T, url, statement string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return err
	}
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), statement)
	return err
}

func count(t *testing.T, url string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNode_KeepsWhatItCommittedAcrossACrash(t *testing.T) {
	t.Parallel()
	n := pgcluster.Start(t, nil)
	before := n.URL()
	if err := exec(t, before, "CREATE TABLE t AS SELECT 1 AS i"); err != nil {
		t.Fatal(err)
	}
	n.Crash(t)
	if exec(t, before, "SELECT 1") == nil {
		t.Fatal("a crashed server answers")
	}
	n.Start(t)
	if got := count(t, n.URL()); got != 1 {
		t.Errorf("%d rows after a crash, want 1", got)
	}
}

func TestStandby_LosesWhatItHasNotReplayed(t *testing.T) {
	t.Parallel()
	primary := pgcluster.Start(t, nil)
	if err := exec(t, primary.URL(), "CREATE TABLE t AS SELECT 1 AS i"); err != nil {
		t.Fatal(err)
	}
	standby := primary.Standby(t)
	standby.Follow(t, primary)
	standby.Cut(t)
	if err := exec(t, primary.URL(), "INSERT INTO t VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	primary.Crash(t)
	standby.Promote(t)
	if got := count(t, standby.URL()); got != 1 {
		t.Errorf("%d rows on the promoted standby, want 1", got)
	}
	if err := exec(t, standby.URL(), "INSERT INTO t VALUES (3)"); err != nil {
		t.Errorf("a promoted standby takes no writes: %v", err)
	}
}

func TestStart_MakesServersOfOneSchemaAndDifferentPorts(t *testing.T) {
	t.Parallel()
	one, other := pgcluster.Start(t, nil), pgcluster.Start(t, nil)
	for _, n := range []*pgcluster.Node{one, other} {
		if v, err := migrations.Version(t.Context(), n.URL()); err != nil || v != migrations.MaxVersion {
			t.Errorf("version %d, %v, want %d", v, err, migrations.MaxVersion)
		}
	}
	before := one.URL()
	one.Crash(t)
	third := pgcluster.Start(t, nil) // must not get the port of a node that is down
	one.Start(t)
	if one.URL() != before || third.URL() == before {
		t.Errorf("the address changed from %s to %s; a third server has %s", before, one.URL(), third.URL())
	}
}

func TestStartEmpty_IsNoCopy(t *testing.T) {
	t.Parallel()
	n := pgcluster.StartEmpty(t, nil)
	if v, err := migrations.Version(t.Context(), n.URL()); err != nil || v != 0 {
		t.Errorf("version %d, %v, want none", v, err)
	}
	if a, b := systemOf(t, n), systemOf(t, pgcluster.Start(t, nil)); a == b {
		t.Errorf("both servers say they are system %s", a)
	}
}

func systemOf(t *testing.T, n *pgcluster.Node) (id string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), n.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), "SELECT system_identifier::text FROM pg_control_system()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// A standby keeps the address that it copied from its primary, once the primary is gone and the address is free.
func TestStandby_KeepsItsAddressOnceItIsAlone(t *testing.T) {
	t.Parallel()
	primary := pgcluster.Start(t, nil)
	standby := primary.Standby(t)
	before := standby.URL()
	primary.Crash(t)
	standby.Promote(t)
	standby.Stop(t)
	standby.Start(t)
	if got := standby.URL(); got != before {
		t.Errorf("the address changed from %s to %s", before, got)
	}
}
