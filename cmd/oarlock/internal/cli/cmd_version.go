package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/migrations"
)

// The linker sets these, see tools/version-stamp. Without it, the values that Go recorded in the binary count.
var version, commit, date, modified string

func newVersionCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print version, commit, date, Go, and the schema versions this binary works with",
		Description: manual{
			about:    `Prints the version of this binary and its build. Needs no database.`,
			examples: []string{"oarlock version", "oarlock version -o id    # the version alone"},
			exits:    []exitNote{{exitOK, "always"}, usageNote, settingsNote},
		}.String(),
		Action: func(*cli.Context) error { return runVersion(e) },
	}
}

type jsonVersion struct {
	Version   string  `json:"version"`
	Commit    *string `json:"commit"`
	Date      *string `json:"date"`
	Modified  bool    `json:"modified"`
	Go        string  `json:"go"`
	Platform  string  `json:"platform"`
	SchemaMin int64   `json:"schema_min"`
	SchemaMax int64   `json:"schema_max"`
}

func runVersion(e *env) error {
	v := buildVersion(debug.ReadBuildInfo())
	return e.say(answer{object: v, ids: []string{v.Version}, text: v.text()})
}

func buildVersion(info *debug.BuildInfo, ok bool) jsonVersion {
	recorded := map[string]string{}
	module := ""
	if ok {
		module = info.Main.Version
		for _, s := range info.Settings {
			recorded[s.Key] = s.Value
		}
	}
	return jsonVersion{
		Version:   cmp.Or(version, module, "(devel)"),
		Commit:    runview.TextOrNull(cmp.Or(commit, recorded["vcs.revision"])),
		Date:      runview.TextOrNull(utc(cmp.Or(date, recorded["vcs.time"]))),
		Modified:  cmp.Or(modified, recorded["vcs.modified"]) == "true",
		Go:        runtime.Version(),
		Platform:  runtime.GOOS + "/" + runtime.GOARCH,
		SchemaMin: migrations.MinVersion,
		SchemaMax: migrations.MaxVersion,
	}
}

// utc returns a time in RFC 3339 as the same time in UTC. It returns any other text unchanged, since a packager may have set any
// text.
func utc(text string) string {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UTC().Format(time.RFC3339)
	}
	return text
}

func (v jsonVersion) text() string {
	source := "unknown"
	if v.Commit != nil {
		source = *v.Commit
		if v.Modified {
			source += " and local changes"
		}
	}
	rows := [][]string{{"oarlock", v.Version}, {"commit", source}}
	if v.Date != nil {
		rows = append(rows, []string{"date", *v.Date})
	}
	return term.AlignRows(append(rows,
		[]string{"go", fmt.Sprintf("%s %s", v.Go, v.Platform)},
		[]string{"schema", versionRange()},
	))
}
