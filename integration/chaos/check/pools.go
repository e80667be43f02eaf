package check

import "fmt"

// Take is what a body takes of a pool while it is under way.
type Take struct {
	Place  string // the pool, or one key of it
	Weight int
	Slots  int // of the place
}

// bodyOf identifies a body. Its publish is a body of its own, and a publish that was lost begins again in another epoch.
type bodyOf struct {
	attemptOf

	epoch   int
	publish bool
}

// Pools reports bodies that were under way at once beyond the slots of a place (C5), each counted by its weight. takes returns what
// the body of a sight takes. Pools also returns how many bodies began and found the last slot of a place, or took it.
//
// Only the lines of the bodies count, no row of Oarlock. A body is under way from its first line to its last one. Each line is
// appended by the body itself, so the body lives at both, and also at each moment between them at which another body begins.
// The order of the lines is the order in time, so no clock is needed. A killed body writes no end: it may live on for a while after
// its last line, which is not judged. Nor is the record of an end: simulated histories find a permit that goes before it (C4).
//
// The bodies of excused workers are left out. Such a worker stood still as a whole, or died with its guard, so nothing could end its
// bodies before its lease and its permits went.
func Pools(sights []Sight, takes func(*Sight) []Take, excused Excused) (full int, broken []Violation) {
	last := map[bodyOf]int{}
	for i := range sights {
		last[sights[i].body()] = i
	}
	begun, living, told := map[bodyOf]bool{}, map[string]int{}, map[string]bool{}
	for i := range sights {
		s := &sights[i]
		if excused[s.Worker] {
			continue
		}
		body, all := s.body(), takes(s)
		if !begun[body] {
			begun[body] = true
			for _, t := range all {
				living[t.Place] += t.Weight
				if n := living[t.Place]; n == t.Slots {
					full++
				} else if n > t.Slots && !told[t.Place] {
					told[t.Place] = true
					broken = append(broken, Violation{"C5", s.Run, fmt.Sprintf("%s of %s#%d by %s: %d are taken of %s, at most %d", s.What, s.Task, s.Attempt, s.Worker, n, t.Place, t.Slots)})
				}
			}
		}
		if last[body] == i {
			for _, t := range all {
				living[t.Place] -= t.Weight
			}
		}
	}
	return full, broken
}
