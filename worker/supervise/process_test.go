package supervise

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func family(pairs ...int) []process {
	var all []process
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, process{identity: identity{pairs[i], uint64(pairs[i])}, parent: pairs[i+1], live: true})
	}
	return all
}

func pids(all []process) []int {
	var found []int
	for _, p := range all {
		found = append(found, p.PID)
	}
	slices.Sort(found)
	return found
}

func TestBelow_ListsWholeTreesWithoutThoseExcepted(t *testing.T) {
	t.Parallel()
	all := family(2, 1, 3, 2, 4, 3, 5, 2, 6, 5, 7, 1, 8, 9, 9, 8, 2, 6)
	for _, test := range []struct {
		root   int
		except map[identity]bool
		want   []int
	}{
		{2, nil, []int{3, 4, 5, 6}},
		{2, map[identity]bool{{5, 5}: true}, []int{3, 4}},
		{2, map[identity]bool{{5, 4}: true}, []int{3, 4, 5, 6}}, // another process with the same PID
		{9, nil, []int{8}},
		{77, nil, nil},
	} {
		if got := pids(below(all, test.root, test.except)); !slices.Equal(got, test.want) {
			t.Errorf("below %d without %v: %v, want %v", test.root, test.except, got, test.want)
		}
	}
}

func TestCarriers_AreThoseWithTheExactVariableAndWhatIsBelow(t *testing.T) {
	t.Parallel()
	all := family(10, 1, 11, 10, 12, 11, 20, 1, 21, 20, 30, 1, 40, 1, 50, 12, 60, 1)
	all[len(all)-1].bare = true
	all = append(all, process{identity: identity{70, 70}, parent: 1, bare: true, kernel: true, live: true}, process{identity: identity{80, 80}, parent: 1, bare: true})
	env := map[int]string{
		10: "A=1\x00OARLOCK_WORKER_ID=w1\x00B=2\x00",
		12: "OARLOCK_WORKER_ID=w1",
		20: "OARLOCK_WORKER_ID=w10\x00XOARLOCK_WORKER_ID=w1\x00",
		21: "Y=OARLOCK_WORKER_ID=w1\x00",
		30: "OARLOCK_WORKER_ID=w2\x00",
	}
	environ := func(pid int) ([]byte, error) {
		if pid == 40 {
			return []byte("OARLOCK_WORKER_ID=w1"), errors.New("may not")
		}
		return []byte(env[pid]), nil
	}
	found := carriers(all, []string{"w1", "w2"}, 12, environ)
	if got, want := pids(found), []int{10, 11, 30, 60}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	for _, p := range found {
		if p.spare != (p.PID == 60) {
			t.Errorf("%d: spare %v", p.PID, p.spare)
		}
	}
}

func TestUnique_KillsWhatAnyoneWantsKilled(t *testing.T) {
	t.Parallel()
	spared := process{identity: identity{1, 1}, spare: true}
	wanted := process{identity: identity{1, 1}}
	for _, all := range [][]process{{spared, wanted}, {wanted, spared}, {wanted, wanted}} {
		if got := unique(all); len(got) != 1 || got[0].spare {
			t.Errorf("%v of %v", got, all)
		}
	}
	if got := unique([]process{spared, {identity: identity{1, 2}}}); len(got) != 2 || !got[0].spare {
		t.Errorf("%v", got)
	}
}

func TestWorkers_AreBoundedAndNeverShared(t *testing.T) {
	t.Parallel()
	var ids []string
	for n := range maxWorkers + 10 {
		before := slices.Clone(ids)
		next := withWorker(ids, fmt.Sprint(n))
		if !slices.Equal(ids, before) {
			t.Fatal("changed its argument")
		}
		ids = next
	}
	if len(ids) != maxWorkers || ids[0] != "10" || ids[maxWorkers-1] != fmt.Sprint(maxWorkers+9) {
		t.Errorf("%d ids from %s to %s", len(ids), ids[0], ids[len(ids)-1])
	}
	if again := withWorker(ids, "20"); !slices.Equal(again, ids) {
		t.Error("an id twice")
	}
	if rest := without(ids, []string{"10", "12", "nobody"}); len(rest) != maxWorkers-2 || ids[0] != "10" {
		t.Errorf("%d left, the first was %s", len(rest), ids[0])
	}
}

func TestConfig_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	good := Config{Name: "n", StateDir: "/s"}
	for name, change := range map[string]func(*Config){
		"worker name":   func(c *Config) { c.Name = "../x" },
		"state folder":  func(c *Config) { c.StateDir = "" },
		"absolute path": func(c *Config) { c.Command = []string{"oarlock"} },
	} {
		bad := good
		change(&bad)
		if _, err := bad.complete(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c, err := good.complete(); err != nil || c.Limits.Attach == 0 || c.Say == nil || len(c.Env) == 0 {
		t.Errorf("%+v, %v", c, err)
	}
}
