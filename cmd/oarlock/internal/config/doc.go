// Package config finds out what each setting is and where that came from.
//
// A setting is taken from the first place that has it: a command-line flag, an environment variable, the settings
// file, the default. The file is strict: an unknown key, a key given twice or a value that is not allowed is an
// error with file, line and column, and all of a file's errors are reported at once.
//
// The caller declares the keys and says how each is checked and shown; this package knows no setting by name.
// A Config is never changed after Load, so it may be shared between goroutines.
package config
