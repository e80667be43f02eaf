package queue

// hearing is what a session hears of.
type hearing struct{}
