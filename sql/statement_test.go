package sql

import (
	"strings"
	"testing"
	"testing/fstest"
)

const header = "-- Purpose: a\n-- Index: b\n-- Locks: none\n"

func TestNamed_ReturnsTheStatementBehindItsName(t *testing.T) {
	t.Parallel()
	const name = "migrate/version"
	got := Named(name)
	if !strings.HasPrefix(got, "/* oarlock "+name+" */ SELECT ") {
		t.Errorf("statement does not start with its name: %q", got)
	}
	if strings.Contains(got, "Purpose") {
		t.Errorf("the header is sent to the server: %q", got)
	}
}

func TestNamed_StopsTheProgramOnAnUnknownName(t *testing.T) {
	t.Parallel()
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got, `"migrate/nothing"`) {
			t.Errorf("panic %q does not name the statement", got)
		}
	}()
	Named("migrate/nothing")
}

func TestNames_AreSorted(t *testing.T) {
	t.Parallel()
	names := Names()
	if len(names) == 0 {
		t.Fatal("no statements are embedded")
	}
	for i := 1; i < len(names); i++ {
		if names[i-1] >= names[i] {
			t.Errorf("%q comes before %q", names[i-1], names[i])
		}
	}
}

func TestLoad_RefusesFilesThatBreakTheForm(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ source, want string }{
		"no header":           {"SELECT 1", `no "-- Purpose: …" line`},
		"empty answer":        {strings.Replace(header, "Locks: none", "Locks: ", 1) + "SELECT 1", `no "-- Locks: …" line`},
		"header below":        {"SELECT 1\n" + header, `no "-- Purpose: …" line`},
		"no statement":        {header + " ;\n", "no statement"},
		"two statements":      {header + "SELECT 1; SELECT 2", "more than one statement"},
		"two after semicolon": {header + "SELECT ';'; SELECT 2;", "more than one statement"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(fstest.MapFS{"x/y.sql": {Data: []byte(c.source)}})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "sql/x/y.sql: ") {
				t.Errorf("error %v, want sql/x/y.sql: … %s", err, c.want)
			}
		})
	}
}

func TestLoad_KeepsSemicolonsThatSeparateNothing(t *testing.T) {
	t.Parallel()
	body := "SELECT ';', \";\", $$;$$ /* ; */ -- ;\n, 'it''s;'"
	got, err := load(fstest.MapFS{"x/y.sql": {Data: []byte(header + body + " ;\n")}})
	if err != nil {
		t.Fatal(err)
	}
	if want := "/* oarlock x/y */ " + body; got["x/y"] != want {
		t.Errorf("got %q, want %q", got["x/y"], want)
	}
}

// because no function that changes rows is planned into the statement that calls it.
