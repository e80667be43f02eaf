// Package golden compares what a test got with what a person looked at and stored in a file, and writes the file anew under
// -rewrite. Importing it gives a test that flag; `make golden` finds the tests that do.
//
// It is for tests only. Calls for different files may run at the same time. It knows nothing of what is in the files.
package golden
