// Package cli is the command line: commands, flags, settings, output and exit codes.
//
// Main runs one command line against an Env, which holds everything a command may touch outside its arguments: the
// streams, the environment, the working folder, the properties of the terminal. So a test runs the whole program
// in its own process.
//
// Commands stand in cmd_*.go, related ones together: newXCommand declares a command, and runX does its work. Data goes to standard
// output, everything else to standard error. A command returns an error; one place (diagnose) turns it into a code, a
// line, a hint and an exit status.
//
// The package knows no SQL and no rule about states: it asks queue, migrations and doctor. Texts about a
// run come from runview; this package colours them and lays them out.
package cli
