// Package integration runs the real program against a real Postgres. It tests what users see, what is left after a crash,
// and how fast work goes on. It knows exported packages and the command line, nothing behind them.
package integration
