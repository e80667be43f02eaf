package worker

// Appetite says how many more runs a worker takes, with hysteresis: past slots × High ready and running tasks it takes
// none, until there are fewer than slots × Low.
type Appetite struct {
	Slots     int
	High, Low int // 0: 4 and 2
	full      bool
}

// Defaults of Appetite.
const (
	defaultHigh = 4
	defaultLow  = 2
)

// Want is how many runs to claim while so many tasks are ready or running. A run counts as one task before it is known.
func (a *Appetite) Want(busy int) int {
	high, low := a.Slots*orDefault(a.High, defaultHigh), a.Slots*orDefault(a.Low, defaultLow)
	switch {
	case busy >= high:
		a.full = true
	case busy < low:
		a.full = false
	}
	if a.full {
		return 0
	}
	return high - busy
}

func orDefault(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}
