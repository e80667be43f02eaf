package spelling

// farBytes bounds the work for long words. Distance compares no letters of two words if their lengths differ by more.
const farBytes = 20

// Distance returns the least number of insertions, deletions, replacements and swaps of neighbouring bytes that turn a into b. If
// the lengths differ by more than farBytes, it returns the difference of the lengths: the distance is at least that large.
func Distance(a, b string) int {
	if apart := max(len(a)-len(b), len(b)-len(a)); apart > farBytes {
		return apart
	}
	before, last := []int(nil), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
