package coretest

import "math/rand/v2"

// Choices makes decisions from a seed or from the bytes of a fuzzer. The same source makes the same decisions.
type Choices struct {
	bytes  []byte
	rng    *rand.Rand
	prefix string // prefix of the names of steps
}

// Seeded returns Choices that follow a pseudo-random sequence.
func Seeded(seed uint64) *Choices { return &Choices{rng: rand.New(rand.NewPCG(seed, 0x0a41))} }

// FromBytes returns Choices that follow the bytes. When the bytes are used up, every decision is the first alternative.
func FromBytes(b []byte) *Choices { return &Choices{bytes: b} }

// Done reports whether the bytes are used up. A seed never is.
func (c *Choices) Done() bool { return c.rng == nil && len(c.bytes) == 0 }

// N returns a number from 0 to n-1.
func (c *Choices) N(n int) int {
	switch {
	case n <= 1:
		return 0
	case c.rng != nil:
		return c.rng.IntN(n)
	case len(c.bytes) == 0:
		return 0
	}
	b := c.bytes[0]
	c.bytes = c.bytes[1:]
	return int(b) % n
}

// OneIn returns true once in n times.
func (c *Choices) OneIn(n int) bool { return c.N(n) == n-1 }

// Pick returns one of a list.
func Pick[T any](c *Choices, list ...T) T { return list[c.N(len(list))] }

// Shuffled returns the numbers 0 to n-1 in random order.
func (c *Choices) Shuffled(n int) []int {
	order := make([]int, n)
	for i := range order {
		j := c.N(i + 1)
		order[i], order[j] = order[j], i
	}
	return order
}
