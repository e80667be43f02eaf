// Package screen is a terminal for tests. A Screen understands what our programs send and is read as a person would see it;
// Start runs a program on one; SVG makes pictures of what was seen.
//
// A Screen belongs to one goroutine; so does a Recording once Wait has returned. Callers of Start call Wait.
//
// It knows the sequences that this project's programs send, and fails on others. It knows nothing of what is drawn.
package screen
