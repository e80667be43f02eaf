// Package weight loads Oarlock's pages over a database that is as large as one ever gets, and follows them with many
// viewers. It measures the cost of each page, and fails where the cost exceeds the promise of docs/scale.md. Its tests
// need an idle machine: they skip unless -nightly is given. The Makefile's target for them is weight.
package weight
