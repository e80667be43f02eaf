// Package golden compares the output of a test with a file that a person has checked. With -rewrite it writes the file
// anew. Importing the package gives a test that flag; `make golden` finds such tests.
//
// The package is for tests only. Calls for different files may run at the same time. It knows nothing of the contents of
// the files.
package golden
