package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module makes a module of packages and their tests, and works in it.
func module(t *testing.T, packages map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, "go.mod", "module m\n\ngo 1.26\n")
	for name, tests := range packages {
		write(t, filepath.Join(name, name+"_test.go"), "package "+name+"\n\nimport (\"os\"; \"testing\")\n\nvar _ = os.Args\n\n"+tests)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// onceBad fails until its marker exists, and makes it.
const onceBad = `func TestOnce(t *testing.T) {
	if _, err := os.Stat("marker"); err != nil {
		os.WriteFile("marker", nil, 0o600)
		t.Error("not this time")
	}
}
`

const alwaysBad = "func TestNever(t *testing.T) { t.Error(\"never\") }\n"

func TestAgain(t *testing.T) {
	cases := []struct {
		name     string
		packages map[string]string
		args     []string
		ok       bool
		want     string
	}{
		{
			"a test that passes alone is flaky",
			map[string]string{"a": onceBad, "b": "func TestB(t *testing.T) {}\n"},
			[]string{"-again", "2", "--", "./..."},
			true, "flaky 1: failed, and passed when run alone; mend them\n  m/a.TestOnce",
		},
		{
			"of its subtests only the one that failed runs again",
			map[string]string{"a": "func TestAll(t *testing.T) {\n\tt.Run(\"one (1/2)\", TestOnce)\n\tt.Run(\"two\", func(t *testing.T) {\n\t\tif _, err := os.Stat(\"two\"); err == nil {\n\t\t\tt.Error(\"again\")\n\t\t}\n\t\tos.WriteFile(\"two\", nil, 0o600)\n\t})\n}\n\n" + onceBad},
			[]string{"-again", "2", "--", "./..."},
			true, "flaky 1: failed, and passed when run alone; mend them\n  m/a.TestAll/one_(1/2)",
		},
		{
			"a test that fails twice has failed",
			map[string]string{"a": onceBad + alwaysBad},
			[]string{"-again", "2", "--", "./..."},
			false, "0 passed, 2 failed",
		},
		{
			"more failures than the limit are no flakes",
			map[string]string{"a": onceBad + strings.ReplaceAll(strings.ReplaceAll(onceBad, "Once", "Two"), "marker", "two")},
			[]string{"-again", "1", "--", "./..."},
			false, "0 passed, 2 failed",
		},
		{
			"without the flag nothing runs again",
			map[string]string{"a": onceBad},
			[]string{"./..."},
			false, "0 passed, 1 failed",
		},
		{
			"a process that died has no second chance",
			map[string]string{"a": "func TestDies(t *testing.T) {\n\tif _, err := os.Stat(\"marker\"); err != nil {\n\t\tos.WriteFile(\"marker\", nil, 0o600)\n\t\tos.Exit(3)\n\t}\n}\n"},
			[]string{"-again", "2", "--", "./..."},
			false, "0 passed, 1 failed",
		},
		{
			"a data race has none",
			map[string]string{"a": strings.ReplaceAll(onceBad, "not this time", raceFound)},
			[]string{"-again", "2", "--", "./..."},
			false, "0 passed, 1 failed",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			module(t, c.packages)
			var out strings.Builder
			ok, err := run(&out, c.args)
			if err != nil {
				t.Fatal(err)
			}
			if ok != c.ok || !strings.Contains(out.String(), c.want) {
				t.Errorf("ok is %v, and %q is wanted in:\n%s", ok, c.want, out.String())
			}
		})
	}
}

func TestGroups_RunOneAfterAnother(t *testing.T) {
	module(t, map[string]string{
		"first":  "func TestFirst(t *testing.T) { os.WriteFile(\"../first.ran\", nil, 0o600) }\n",
		"second": "func TestSecond(t *testing.T) {\n\tif _, err := os.Stat(\"../first.ran\"); err != nil {\n\t\tt.Error(err)\n\t}\n}\n",
	})
	var out strings.Builder
	ok, err := run(&out, []string{"-count=1", "--", "./first", "--", "./second"})
	if err != nil || !ok {
		t.Fatalf("%v %v\n%s", ok, err, out.String())
	}
	if want := "2 passed, 0 failed, 0 skipped"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is wanted in:\n%s", want, out.String())
	}
}
