package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// sampleApp is the program plus commands with arguments and with flags of every type, which the real commands may lack.
func sampleApp() *cli.App {
	app := newApp(&env{Env: testEnv()})
	app.Commands = []*cli.Command{
		{
			Name: "enqueue", ArgsUsage: "DAG",
			Flags: []cli.Flag{
				&cli.StringSliceFlag{Name: "param", Aliases: []string{"p"}},
				&cli.IntFlag{Name: "priority"},
				&cli.BoolFlag{Name: "wait", Aliases: []string{"w"}},
			},
		},
		{Name: "dag", Subcommands: []*cli.Command{{Name: "apply", ArgsUsage: "FILE…"}, {Name: "list"}}},
	}
	disableBuiltins(app.Commands)
	return app
}

func TestArrange_PutsFlagsWhereTheyAreSeen(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"enqueue etl -o json":                      "oarlock --output=json enqueue -- etl",
		"-o json enqueue etl":                      "oarlock --output=json enqueue -- etl",
		"enqueue -o=json etl --wait":               "oarlock --output=json enqueue --wait -- etl",
		"enqueue -ojson etl":                       "oarlock --output=json enqueue -- etl",
		"enqueue etl -p a=1,2 --param b=x=y":       "oarlock enqueue --param=a=1,2 --param=b=x=y -- etl",
		"enqueue etl -pa=1":                        "oarlock enqueue --param=a=1 -- etl",
		"enqueue etl --priority -5":                "oarlock enqueue --priority=-5 -- etl",
		"enqueue etl -w":                           "oarlock enqueue --wait -- etl",
		"enqueue etl --wait=false":                 "oarlock enqueue --wait=false -- etl",
		"enqueue -- --priority":                    "oarlock enqueue -- --priority",
		"enqueue etl -- -o json":                   "oarlock enqueue -- etl -o json",
		"enqueue -":                                "oarlock enqueue -- -",
		"dag --no-color apply a.yaml b.yaml":       "oarlock --no-color dag apply -- a.yaml b.yaml",
		"dag apply dag":                            "oarlock dag apply -- dag",
		"enqueue -priority 5 etl":                  "oarlock enqueue --priority=5 -- etl",
		"enqueue etl --param --not-a-flag":         "oarlock enqueue --param=--not-a-flag -- etl",
		"dag list --database-url postgres://a?b=c": "oarlock --database-url=postgres://a?b=c dag list",
	}
	for words, want := range cases {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			line, err := arrange(sampleApp(), strings.Fields(words))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(line.words("oarlock"), " "); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestArrange_RefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ msg, hint string }{
		"enqueu etl":                {`unknown command "enqueu"`, `did you mean "enqueue"?`},
		"zzz":                       {`unknown command "zzz"`, ``},
		"dag aply":                  {`unknown dag command "aply"`, `did you mean "apply"?`},
		"dag":                       {`dag needs a command: apply, list`, ``},
		"dag list x":                {`dag list takes no arguments, got "x"`, ``},
		"enqueue etl --parm a=1":    {`unknown flag --parm`, `did you mean --param?`},
		"enqueue etl --prio=1":      {`unknown flag --prio`, `did you mean --priority?`},
		"--wait enqueue etl":        {`unknown flag --wait`, ``},
		"enqueue etl -x":            {`unknown flag -x`, ``},
		"enqueue etl -5":            {`unknown flag -5`, "put `--` before an argument that begins with a dash"},
		"enqueue etl --param":       {`flag --param needs a value`, ``},
		"enqueue -p --wait etl":     {`flag -p needs a value`, ``},
		"enqueue etl --outptu json": {`unknown flag --outptu`, `did you mean --output?`},
		"enqueue etl --hlep":        {`unknown flag --hlep`, `did you mean --help?`},
		"-o json":                   {`no command given`, ``},
	}
	for words, want := range cases {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			_, err := arrange(sampleApp(), strings.Fields(words))
			got, ok := errors.AsType[*usageError](err)
			if !ok || got.msg != want.msg || got.hint != want.hint {
				t.Errorf("got %+v, want %+v", err, want)
			}
		})
	}
}

func TestArrange_ShowsHelpWhateverElseIsMissing(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"": "", "--help": "", "help": "", "-h": "", "help dag": "dag", "dag -h": "dag", "dag --help list": "dag list",
		"enqueue --help": "enqueue", "help dag apply": "dag apply", "-o json --help": "",
	}
	for words, want := range cases {
		line, err := arrange(sampleApp(), strings.Fields(words))
		if err != nil || !line.help || pathName(line.path) != want {
			t.Errorf("%q: got help %v of %q (%v), want help of %q", words, line.help, pathName(line.path), err, want)
		}
	}
}

func TestArrange_LetsUrfaveSeeEveryValueWhole(t *testing.T) {
	t.Parallel()
	app := sampleApp()
	var params, args []string
	app.Commands[0].Action = func(c *cli.Context) error {
		params, args = c.StringSlice("param"), c.Args().Slice()
		return nil
	}
	line, err := arrange(app, strings.Fields("enqueue etl -p a=1,2 -- -p b=3"))
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Run(line.words("oarlock")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(params, "|") + " " + strings.Join(args, "|"); got != "a=1,2 etl|-p|b=3" {
		t.Errorf("got %s", got)
	}
}
