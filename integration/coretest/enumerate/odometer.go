package enumerate

// odometer enumerates decisions. If the same function runs again and again, every sequence of answers of N comes up once.
type odometer struct {
	picks, sizes []int
	at           int
	changed      int // index of the first answer that differs from the run before
}

// newOdometer returns an odometer at its first sequence.
func newOdometer() *odometer { return &odometer{changed: -1} }

// N returns a number from 0 to n-1.
func (o *odometer) N(n int) int {
	if o.at == len(o.picks) {
		o.picks, o.sizes = append(o.picks, 0), append(o.sizes, n)
	}
	o.at++
	return o.picks[o.at-1]
}

// Fresh reports whether this point was not reached before with the same answers.
func (o *odometer) Fresh() bool { return o.at > o.changed }

// Next goes to the next sequence, and returns false when there is none.
func (o *odometer) Next() bool {
	for i := len(o.picks) - 1; i >= 0; i-- {
		if o.picks[i]+1 < o.sizes[i] {
			o.picks[i]++
			o.picks, o.sizes, o.at, o.changed = o.picks[:i+1], o.sizes[:i+1], 0, i
			return true
		}
	}
	return false
}
