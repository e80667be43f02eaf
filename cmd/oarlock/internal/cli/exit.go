package cli

// exit is the exit status of a process.
type exit int

const (
	exitOK          exit = 0
	exitError       exit = 1
	exitUsage       exit = 2
	exitNotFound    exit = 3
	exitConflict    exit = 4
	exitUnreachable exit = 5
	exitInvalid     exit = 6
	exitRunFailed   exit = 10
	exitRunCanceled exit = 11
	exitTimeout     exit = 124
	exitInterrupt   exit = 130
	exitTerminate   exit = 143

	// exitDriverUsage replaces exitUsage in a driver process. Go exits with 2 after a crash, so a guard would take exitUsage
	// for one.
	exitDriverUsage exit = 64
)

// kind is a class of errors: its code in -o json, and its exit status.
type kind struct {
	code string
	exit exit
}

// The kinds of errors. Codes are a contract: they may be added, never renamed.
var (
	general       = kind{"error", exitError}
	checkFailed   = kind{"check_failed", exitError}
	denied        = kind{"permission_denied", exitError}
	noPostgres    = kind{"postgres_missing", exitError}
	usage         = kind{"usage", exitUsage}
	notFound      = kind{"not_found", exitNotFound}
	conflict      = kind{"conflict", exitConflict}
	unreachable   = kind{"unreachable", exitUnreachable}
	authFailed    = kind{"auth_failed", exitUnreachable}
	readOnly      = kind{"read_only", exitUnreachable}
	serverVersion = kind{"server_version", exitUnreachable}
	schemaVersion = kind{"schema_version", exitUnreachable}
	mayBeCopy     = kind{"may_be_copy", exitUnreachable}
	invalid       = kind{"validation", exitInvalid}
	runFailed     = kind{"run_failed", exitRunFailed}
	runCanceled   = kind{"run_canceled", exitRunCanceled}
	timedOut      = kind{"timeout", exitTimeout}
	interrupted   = kind{"interrupted", exitInterrupt}
	terminated    = kind{"terminated", exitTerminate}
)

// failure is an error with a kind that the command has decided.
type failure struct {
	kind kind
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }
func (f *failure) Hint() string  { return f.hint }

// statusError ends the program with an exit status and prints nothing, since the error was printed before.
type statusError int

func (s statusError) Error() string { return "exit status " + decimal(int64(s)) }
