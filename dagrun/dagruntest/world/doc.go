// Package world simulates several workers that drive runs over one database, with everything that goes wrong: killed
// and frozen workers, cut connections, commits that fail, land without an answer, land in part, or are refused because
// an inbox moved.
//
// One seed is one history: nothing here starts a goroutine, looks at a clock or depends on the order of a map. A history
// is a list of turns; each turn moves the clock a little and lets one actor, drawn by the seed, do one thing. After the
// turns with faults come calm ones, in which every run must reach its end.
//
// The store checks every write against the history so far: see check.go for the invariants. Counters tell how often
// the interesting things happened, so that a test can prove that they did.
//
// The package knows the core, package dagrun, and plays everything around it: gate, journal, lease, reaper, bodies, child
// runs, people.
package world
