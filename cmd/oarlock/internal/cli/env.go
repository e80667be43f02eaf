package cli

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/internal/pglocal"
)

// Env is everything a command may touch outside its arguments.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Lookup         func(name string) (string, bool) // the environment
	Environ        func() []string                  // all variables, as name=value; nil: none are looked through
	Dir            string                           // relative paths count from here

	StdinTTY, StdoutTTY, StderrTTY bool

	Columns, Rows int                        // of the terminal that standard output is; 0: unknown
	Size          func() (columns, rows int) // the same now; nil: it does not change
	StderrColumns int                        // of the terminal that standard error is; 0: unknown
}

// SystemEnv is the Env of this process.
func SystemEnv() Env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "." // the folder was deleted under us: only relative paths suffer
	}
	columns, rows := terminalSize(os.Stdout)
	stderrColumns, _ := terminalSize(os.Stderr)
	return Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Lookup: os.LookupEnv, Environ: os.Environ,
		Dir:      dir,
		StdinTTY: isTerminal(os.Stdin), StdoutTTY: isTerminal(os.Stdout), StderrTTY: isTerminal(os.Stderr),
		Columns: columns, Rows: rows,
		Size:          func() (int, int) { return terminalSize(os.Stdout) },
		StderrColumns: stderrColumns,
	}
}

func terminalSize(f *os.File) (columns, rows int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}

// isTerminal asks for the window size: unlike the file mode, that tells a terminal from /dev/null.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// env is one invocation: the outside, and what its settings make of it.
type env struct {
	Env
	command  string // as the user would type it: oarlock migrate up
	file     *config.File
	flags    map[string][]string // global ones that were given
	settings *config.Config
	log      *slog.Logger

	makesPrivate bool            // this command makes a private server where no database is named
	driver       bool            // this is the process below a guard
	hearsSignals bool            // a signal is a request to this command, and no reason why it fails
	server       *pglocal.Server // the private one; nil: not in use
	lines        *liveLines      // for whoever draws on the terminal; nil: what is to be noted is printed at once
}
