// Command oarlock runs DAGs from your Postgres; `oarlock --help` says how.
package main

import (
	"os"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/cli"
)

func main() {
	os.Exit(cli.Main(cli.SystemEnv(), os.Args[1:]))
}
