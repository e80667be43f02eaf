package netfault

import "testing"

func TestServerOf_FindsTheHost(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"postgres://u:p@db:5433/app":                        "db:5433",
		"postgres://db/app":                                 "db:5432",
		"postgres://[::1]:5433/app":                         "[::1]:5433",
		"postgres:///app?host=/run/pg":                      "/run/pg/.s.PGSQL.5432",
		"postgres://u@/app?host=/run/pg&port=5433":          "/run/pg/.s.PGSQL.5433",
		"postgres://u@:6000/app?host=%2Frun%2Fpg&x=y":       "/run/pg/.s.PGSQL.6000",
		"postgres://first:1/app?host=second&port=2":         "second:2",
		"postgres://u@127.0.0.1:41234/app?sslmode=disable#": "127.0.0.1:41234",
	} {
		if got, err := serverOf(in); got != want || err != nil {
			t.Errorf("serverOf(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	if got, err := serverOf("postgres:///app"); err == nil {
		t.Errorf("found %q in a URL without host", got)
	}
}

func TestURL_LeadsThroughTheProxy(t *testing.T) {
	t.Parallel()
	p, got := Through(t, "postgres://u:p@/app?host=/run/pg&port=5433&sslmode=require&connect_timeout=3")
	if want := "postgres://u:p@" + p.Addr() + "/app?connect_timeout=3&sslmode=disable"; got != want {
		t.Errorf("URL %q, want %q", got, want)
	}
}
