//go:build !race

package dagruntest

const underRace = false
