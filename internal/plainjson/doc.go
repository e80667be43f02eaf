// Package plainjson writes JSON as people and other programs would: on one line, and without escapes for HTML. Values that pass
// through Oarlock, such as params and outputs, then look as they were written.
//
// The function is safe for concurrent use. The package knows no runs and no terminals; internal/runview removes characters that a
// terminal would obey.
package plainjson
