// Package await is for tests that wait for what another goroutine or process does.
//
// True polls a condition for as long as a busy machine may need, and fails the test after that. A Buffer may be read while
// others write to it, as the log of a program that runs. It knows nothing of the product.
package await
