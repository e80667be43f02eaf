package exec

import (
	"os"
	"path/filepath"
	"testing"
)

// remove works the second time if a process was still alive in the group the first time.
func TestCgroup_ClosesItsDescriptorOnce(t *testing.T) {
	dir := t.TempDir() // any folder does
	g, err := makeCgroup(filepath.Join(dir, "group"))
	if err != nil {
		t.Fatal(err)
	}
	was := g.dir
	if err := g.remove(); err != nil {
		t.Fatal(err)
	}
	var others []*os.File // one of them gets the descriptor's number
	for len(others) == 0 || int(others[len(others)-1].Fd()) < was {
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		others = append(others, f)
	}
	if err := g.remove(); err != nil {
		t.Error(err)
	}
	for _, f := range others {
		if _, err := f.Stat(); err != nil {
			t.Errorf("somebody else's descriptor was closed: %v", err)
		}
	}
}
