// Package spelling measures how much a word differs from a name, for hints such as "did you mean". Its callers decide which
// distance is near enough, since a name in a DAG file and a command are mistyped in other ways.
//
// The function is safe for concurrent use. The package knows no names.
package spelling
