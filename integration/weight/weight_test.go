package weight

import "testing"

// One database serves both tests, because filling it takes longer than measuring.
func TestWeight(t *testing.T) {
	b := setup(t)
	s := b.seed(t)
	t.Run("Pages", func(t *testing.T) { b.pagesAreLight(t, s) })
	t.Run("Streams", b.streamsAreLight)
}
