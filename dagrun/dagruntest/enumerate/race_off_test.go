//go:build !race

package enumerate

const underRace = false
