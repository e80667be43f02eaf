// Package await helps tests that wait for another goroutine or process.
//
// True polls a condition for as long as a busy machine may need, and then fails the test. A Buffer may be read while
// others write to it, like the log of a running program. The package knows nothing of the product.
package await
