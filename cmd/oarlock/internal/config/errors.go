package config

import "fmt"

// InvalidError reports a value of a flag or a variable that its key does not allow.
type InvalidError struct {
	Value  Value
	Reason error
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s: %q %v", e.Value.Origin.Where, e.Value.Shown(), e.Reason)
}

func (e *InvalidError) Unwrap() error { return e.Reason }

// Hint suggests the allowed value that is most like the bad one. It returns "" if none is near, or if the key has no list of
// allowed values.
func (e *InvalidError) Hint() string {
	return DidYouMean(e.Value.Text, e.Value.Key.Allowed)
}

// FileError is one problem in the settings file, with its line and column.
type FileError struct {
	Path         string
	Line, Column int
	Msg, Hint    string
	Source       string // the line, without text that may be secret; empty when it cannot be shown
}

func (e *FileError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.Path, e.Line, e.Column, e.Msg)
}

// FileErrors are all problems of one file, in the order of their lines. The list is never empty.
type FileErrors []*FileError

func (e FileErrors) Error() string {
	if len(e) == 1 {
		return e[0].Error()
	}
	return fmt.Sprintf("%v (and %d more problems)", e[0], len(e)-1)
}
