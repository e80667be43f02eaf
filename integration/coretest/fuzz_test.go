package coretest

import "testing"

// FuzzCore reads bytes as choices of a graph and of its history. Core and model must agree, and the run must end.
func FuzzCore(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		c := FromBytes(b[:min(len(b), 2_000)])
		spec, opts := RandomSpec(c, 5)
		p, err := NewPlay(c, spec, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Run(200); err != nil {
			t.Fatalf("%v\n%s", err, p.Story())
		}
	})
}
