// Command oarlock runs DAGs from Postgres. `oarlock --help` lists its commands.
package main

import (
	"os"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/cli"
)

func main() {
	os.Exit(cli.Main(cli.SystemEnv(), os.Args[1:]))
}
