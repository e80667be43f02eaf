package cli

import (
	"encoding/json"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

func newDAGSchemaCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "schema",
		Usage: "print the JSON Schema of DAG files",
		Description: manual{
			about: `Prints the JSON Schema (draft 7) that this binary checks files against, in every format but jsonl indented.
Editors complete and check with it: YAML files name it in a first line "# yaml-language-server: $schema=oarlock.json".`,
			examples: []string{"oarlock dag schema > oarlock.json"},
			exits:    []exitNote{{exitOK, "the schema was printed"}, usageNote, settingsNote},
		}.String(),
		Action: func(*cli.Context) error {
			schema := dagspec.Schema()
			return e.say(answer{object: json.RawMessage(schema), text: string(schema)})
		},
	}
}
