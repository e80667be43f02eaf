// Package weight loads the pages of Oarlock over a database as large as one comes to be, and follows them with many viewers. It
// says what each page costs, and fails where that is more than docs/scale.md promises. Its tests are for a machine that does
// nothing else: they skip unless -nightly is given. The Makefile has them as the target weight.
package weight
