// Package integration runs the real program against a real Postgres: what users see, what is left after a crash, and how
// fast it goes on. It knows exported packages and the command line, nothing behind them.
package integration
