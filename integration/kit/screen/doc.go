// Package screen is a terminal for tests. A Screen understands what our programs send, and shows it as a person would see
// it. Start runs a program on one, and SVG makes pictures of the frames.
//
// A Screen belongs to one goroutine; so does a Recording once Wait has returned. Callers of Start call Wait.
//
// It knows the sequences that this project's programs send, and fails on others. It knows nothing of the meaning of the
// text.
package screen
