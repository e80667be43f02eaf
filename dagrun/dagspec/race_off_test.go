//go:build !race

package dagspec

const raceFactor = 1
