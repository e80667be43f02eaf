package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var testKeys = []Key{
	{
		Name: "database_url", Flag: "--database-url", Env: []string{"OARLOCK_DATABASE_URL", "DATABASE_URL"},
		Show: func(string) string { return "hidden" },
	},
	{Name: "output", Flag: "--output", Env: []string{"OARLOCK_OUTPUT"}, Default: "table", Allowed: []string{"table", "json"}},
	{Name: "slots", Env: []string{"OARLOCK_SLOTS"}, Default: "8", Check: func(s string) error {
		_, err := strconv.Atoi(s)
		return err
	}},
}

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		text, ok := env[name]
		return text, ok
	}
}

func file(t *testing.T, text string) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Path = "c.yaml"
	return f
}

func TestLoad_TakesTheStrongestPlaceAndRemembersIt(t *testing.T) {
	t.Parallel()
	inFile := "# comment\noutput: json\n"
	cases := map[string]struct {
		flags map[string][]string
		env   map[string]string
		file  string
		want  Value
	}{
		"flag": {
			map[string][]string{"output": {"table"}},
			map[string]string{"OARLOCK_OUTPUT": "json"},
			inFile,
			Value{Text: "table", Origin: Origin{FromFlag, "--output"}},
		},
		"environment": {
			nil,
			map[string]string{"OARLOCK_OUTPUT": "table"},
			inFile,
			Value{Text: "table", Origin: Origin{FromEnv, "OARLOCK_OUTPUT"}},
		},
		"empty variable is none": {
			nil,
			map[string]string{"OARLOCK_OUTPUT": ""},
			inFile,
			Value{Text: "json", Origin: Origin{FromFile, "c.yaml:2"}},
		},
		"file":       {nil, nil, inFile, Value{Text: "json", Origin: Origin{FromFile, "c.yaml:2"}}},
		"default":    {nil, nil, "", Value{Text: "table", Origin: Origin{Kind: FromDefault}}},
		"empty flag": {map[string][]string{"output": {"json"}}, nil, "", Value{Text: "json", Origin: Origin{FromFlag, "--output"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Load(testKeys, Sources{Flags: c.flags, Lookup: lookup(c.env), File: file(t, c.file)})
			if err != nil {
				t.Fatal(err)
			}
			if v := got.Value("output"); v.Text != c.want.Text || v.Origin != c.want.Origin {
				t.Errorf("got %q from %v, want %q from %v", v.Text, v.Origin, c.want.Text, c.want.Origin)
			}
		})
	}
}

func TestLoad_PrefersTheFirstVariable(t *testing.T) {
	t.Parallel()
	env := lookup(map[string]string{"DATABASE_URL": "b", "OARLOCK_DATABASE_URL": "a"})
	got, err := Load(testKeys, Sources{Lookup: env})
	if err != nil {
		t.Fatal(err)
	}
	if v := got.Value("database_url"); v.Text != "a" || v.Shown() != "hidden" {
		t.Errorf("got %q shown as %q, want a shown as hidden", v.Text, v.Shown())
	}
}

// A source may still set a setting that no longer exists, to any value: Load warns and goes on, and Values does not list
// the setting.
func TestLoad_PassesOverWhatIsGone(t *testing.T) {
	t.Parallel()
	keys := append(slices.Clone(testKeys), Key{Name: "pulse", Env: []string{"OARLOCK_PULSE"}, Gone: "it follows from slots"})
	for _, c := range []struct {
		env        map[string]string
		file, want string
	}{
		{nil, "output: json\n", ""},
		{nil, "output: json\npulse: [1, {}]\n", "c.yaml:2: pulse has no effect any more: it follows from slots"},
		{map[string]string{"OARLOCK_PULSE": "x"}, "pulse: 1\n", "OARLOCK_PULSE: pulse has no effect any more: it follows from slots"},
	} {
		got, err := Load(keys, Sources{Lookup: lookup(c.env), File: file(t, c.file)})
		if err != nil {
			t.Fatal(err)
		}
		if warnings := strings.Join(got.Warnings(), "\n"); warnings != c.want {
			t.Errorf("%q: it warns %q, want %q", c.file, warnings, c.want)
		}
		if len(got.Values()) != len(testKeys) {
			t.Errorf("%q: %d settings are shown, want %d", c.file, len(got.Values()), len(testKeys))
		}
	}
	_, err := Load(keys, Sources{Lookup: lookup(nil), File: file(t, "pulze: 1\n")})
	problems, _ := errors.AsType[FileErrors](err)
	if len(problems) != 1 || strings.Contains(problems[0].Hint, "pulse") {
		t.Errorf("it is offered: %v", problems)
	}
}

func TestLoad_RefusesBadFlagsAndVariables(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		from Sources
		want string
		hint string
	}{
		"flag": {
			Sources{Flags: map[string][]string{"output": {"jsno"}}, Lookup: lookup(nil)},
			`--output: "jsno" must be table or json`, `did you mean "json"?`,
		},
		"variable": {
			Sources{Lookup: lookup(map[string]string{"OARLOCK_OUTPUT": "csv"})},
			`OARLOCK_OUTPUT: "csv" must be table or json`, "",
		},
		"check": {
			Sources{Lookup: lookup(map[string]string{"OARLOCK_SLOTS": "many"})},
			`OARLOCK_SLOTS: "many" strconv.Atoi: parsing "many": invalid syntax`, "",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(testKeys, c.from)
			invalid, ok := errors.AsType[*InvalidError](err)
			if !ok || invalid.Error() != c.want || invalid.Hint() != c.hint {
				t.Errorf("got %v, want %q with hint %q", err, c.want, c.hint)
			}
		})
	}
}

func TestLoad_ReportsEveryProblemOfTheFileWithItsPlace(t *testing.T) {
	t.Parallel()
	text := strings.Join([]string{
		"databse_url: postgres://ana:secret@db/app",
		"output: jsom",
		"slots: [1, 2]",
		"output: json",
		"slots:",
		"zzz: 1",
	}, "\n")
	_, err := Load(testKeys, Sources{Lookup: lookup(nil), File: file(t, text)})
	problems, ok := errors.AsType[FileErrors](err)
	if !ok {
		t.Fatalf("got %v, want FileErrors", err)
	}
	want := []struct{ msg, hint string }{
		{`c.yaml:1:1: unknown key "databse_url"`, `did you mean "database_url"?`},
		{`c.yaml:2:9: output must be table or json`, `did you mean "json"?`},
		{`c.yaml:3:8: slots takes one plain value`, ``},
		{`c.yaml:4:1: output is set twice, first in line 2`, `delete one of the two lines`},
		{`c.yaml:5:7: slots is empty`, `give the setting a value, or delete the line`},
		{`c.yaml:6:1: unknown key "zzz"`, `known keys: database_url, output, slots`},
	}
	if len(problems) != len(want) {
		t.Fatalf("got %d problems, want %d: %v", len(problems), len(want), problems)
	}
	for i, w := range want {
		if problems[i].Error() != w.msg || problems[i].Hint != w.hint {
			t.Errorf("got %q (%s)\nwant %q (%s)", problems[i], problems[i].Hint, w.msg, w.hint)
		}
	}
	if got, want := problems[0].Source, "databse_url: …"; got != want {
		t.Errorf("got source %q, want %q", got, want)
	}
}

func TestLoad_NeverShowsWhatMayBeSecretInTheFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"databse_url: postgres://ana:hunter2@db",
		"database_url: [hunter2",
		"database_url: hunter2: b",
		"database_url: \"hunter2",
		"output: json\n database_url: hunter2",
		"hunter2",
		"- hunter2",
		"database_url: &a hunter2\noutput: *a",
		"database_url: |\n  hunter2\n output: x",
		"? {database_url: hunter2}\n: x",
	} {
		_, err := Load(testKeys, Sources{Lookup: lookup(nil), File: file(t, text)})
		problems, ok := errors.AsType[FileErrors](err)
		if !ok {
			t.Errorf("%q: got %v, want FileErrors", text, err)
			continue
		}
		for _, p := range problems {
			if shown := p.Error() + p.Source + p.Hint; strings.Contains(shown, "hunter2") {
				t.Errorf("%q shows the secret: %s", text, shown)
			}
			if p.Line < 1 || p.Column < 1 {
				t.Errorf("%q: no place in %v", text, p)
			}
		}
	}
}

func TestLoad_TakesFilesWithoutSettings(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "# only a comment\n", "---\n", "\uFEFFoutput: json\n"} {
		if _, err := Load(testKeys, Sources{Lookup: lookup(nil), File: file(t, text)}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestRead_RefusesHugeFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "big.yaml")
	if err := os.WriteFile(path, make([]byte, maxFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "larger than 64 KiB") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestFind_TakesTheFirstFileThatExists(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	second := filepath.Join(dir, "b.yaml")
	if err := os.WriteFile(second, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Find([]string{filepath.Join(dir, "a.yaml"), filepath.Join(os.DevNull, "b.yaml"), second})
	if err != nil || got == nil || got.Path != second {
		t.Errorf("got %v, %v; want %s", got, err, second)
	}
	if got, err := Find(nil); got != nil || err != nil {
		t.Errorf("got %v, %v; want neither", got, err)
	}
	if _, err := Find([]string{dir}); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder in place of a file gave %v, want an error", err)
	}
}

func TestPlaces_FollowXDG(t *testing.T) {
	t.Parallel()
	const system = "/etc/oarlock/config.yaml"
	cases := map[string]struct {
		env  map[string]string
		want []string
	}{
		"xdg":          {map[string]string{"XDG_CONFIG_HOME": "/x", "HOME": "/h"}, []string{"/x/oarlock/config.yaml", system}},
		"home":         {map[string]string{"HOME": "/h"}, []string{"/h/.config/oarlock/config.yaml", system}},
		"neither":      {nil, []string{system}},
		"relative xdg": {map[string]string{"XDG_CONFIG_HOME": "x"}, []string{system}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Places(lookup(c.env)); strings.Join(got, " ") != strings.Join(c.want, " ") {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestNear_FindsWhatWasMeant(t *testing.T) {
	t.Parallel()
	names := []string{"o", "status", "up", "down", "roles", "database_url"}
	cases := map[string]string{
		"stauts": "status", "Status": "status", "statu": "status", "dwon": "down", "rols": "roles", "pu": "up",
		"databse_url": "database_url", "data": "database_url", "st": "", "xyz": "", "frobnicate": "", "": "", "x": "",
	}
	for word, want := range cases {
		if got := Near(word, names); got != want {
			t.Errorf("Near(%q) = %q, want %q", word, got, want)
		}
	}
}

var shapedKeys = []Key{
	{Name: "queues", Shape: List, Env: []string{"OARLOCK_QUEUES"}, Check: func(s string) error {
		if strings.Contains(s, " ") {
			return errors.New("must be one word")
		}
		return nil
	}},
	{Name: "labels", Shape: Map, Env: []string{"OARLOCK_LABELS"}, Show: strings.ToUpper},
}

func TestLoad_ReadsListsAndMaps(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		flags map[string][]string
		env   map[string]string
		file  string
		want  string
	}{
		"nothing":     {nil, nil, "", "queues: labels:"},
		"file":        {nil, nil, "queues: [a, b]\nlabels:\n  gpu: true\n  zone: eu\n", "queues:a, b labels:GPU=TRUE, ZONE=EU"},
		"environment": {nil, map[string]string{"OARLOCK_QUEUES": "a,b", "OARLOCK_LABELS": "gpu=true,zone=eu=1"}, "queues: [c]", "queues:a, b labels:GPU=TRUE, ZONE=EU=1"},
		"flags":       {map[string][]string{"queues": {"a,b", "c"}}, map[string]string{"OARLOCK_QUEUES": "d"}, "", "queues:a,b, c labels:"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Load(shapedKeys, Sources{Flags: c.flags, Lookup: lookup(c.env), File: file(t, c.file)})
			if err != nil {
				t.Fatal(err)
			}
			if text := "queues:" + got.Value("queues").Shown() + " labels:" + got.Value("labels").Shown(); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

func TestLoad_TellsAnEmptyListFromNone(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]Sources{
		"file":        {Lookup: lookup(nil), File: file(t, "queues: []")},
		"environment": {Lookup: lookup(map[string]string{"OARLOCK_QUEUES": "[]"})},
	} {
		got, err := Load(shapedKeys, from)
		if err != nil {
			t.Fatal(name, err)
		}
		if items := got.Value("queues").Items; items == nil || len(items) != 0 {
			t.Errorf("%s: got %#v, want an empty list that was given", name, items)
		}
	}
}

func TestLoad_RefusesBadListsAndMaps(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ env, file, want string }{
		"no list":       {"", "queues: a", "c.yaml:1:9: queues takes a list"},
		"no map":        {"", "labels: [a]", "c.yaml:1:9: labels takes values by name"},
		"nested":        {"", "queues: [[a]]", "c.yaml:1:10: an item of queues takes one plain value"},
		"deep":          {"", "labels:\n  a: {b: c}\n", "c.yaml:2:6: labels.a takes one plain value"},
		"twice":         {"", "labels:\n  a: b\n  a: c\n", "c.yaml:3:3: labels.a is set twice"},
		"item":          {"", "queues: [a b]", "c.yaml:1:1: queues must be one word"},
		"no name":       {"OARLOCK_LABELS=gpu", "", `OARLOCK_LABELS: "GPU" must be name=value`},
		"item in a var": {"OARLOCK_QUEUES=a,b c", "", `OARLOCK_QUEUES: "b c" must be one word`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			variable, value, _ := strings.Cut(c.env, "=")
			_, err := Load(shapedKeys, Sources{Lookup: lookup(map[string]string{variable: value}), File: file(t, c.file)})
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
