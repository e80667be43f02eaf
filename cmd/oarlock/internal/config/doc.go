// Package config decides the value of each setting, and remembers which place the value came from.
//
// A setting is taken from the first place that has it: a command-line flag, an environment variable, the settings
// file, the default. The file is strict: an unknown key, a key given twice or a value that is not allowed is an
// error with file, line and column, and all of a file's errors are reported at once.
//
// The caller declares the keys, and how each is checked and shown; this package knows no setting by name. A Config does not
// change after Load, so goroutines may share it.
package config
