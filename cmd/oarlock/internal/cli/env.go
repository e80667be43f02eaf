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
	Lookup         func(name string) (string, bool) // reads a variable
	Environ        func() []string                  // returns all variables as name=value; nil: there are none to search
	Dir            string                           // working folder, which relative paths start from

	StdinTTY, StdoutTTY, StderrTTY bool

	Columns, Rows int                        // size of standard output's terminal; 0: unknown
	Size          func() (columns, rows int) // returns that size as it is now; nil: it does not change
	StderrColumns int                        // width of standard error's terminal; 0: unknown
}

// SystemEnv is the Env of this process.
func SystemEnv() Env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "." // the working folder was deleted: only relative paths fail
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

// isTerminal asks for the window size: unlike the file mode, it distinguishes a terminal from /dev/null.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// env is one invocation of the program: its Env, its settings, and its state.
type env struct {
	Env
	command  string // as the user types it: oarlock migrate up
	file     *config.File
	flags    map[string][]string // global flags that the user typed
	settings *config.Config
	log      *slog.Logger

	makesPrivate bool            // the command makes a private server if no database is named
	driver       bool            // this process is a driver, started by a guard
	hearsSignals bool            // a signal is a request to this command, not the reason for its failure
	server       *pglocal.Server // the private server; nil: not in use
	lines        *liveLines      // collects lines while a page is drawn on the terminal; nil: lines are printed at once
}
