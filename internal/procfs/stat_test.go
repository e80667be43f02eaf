package procfs

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// line makes a line of /proc/PID/stat: fields are 0 but for the given ones.
func line(name, state string, values map[int]string) string {
	fields := strings.Fields(strings.Repeat("0 ", fieldsNeeded+3))
	for at, value := range values {
		fields[at] = value
	}
	fields[fieldState] = state
	return fmt.Sprintf("42 (%s) %s\n", name, strings.Join(fields, " "))
}

func TestParseStat_UnderstandsAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sleep", "a b", "(sd-pam)", ") S 1 (", "a) Z) b", "", "((", "))", "x\ny) R 7 7", "ünï", `a\nb`} {
		text := line(name, "S", map[int]string{fieldParent: "7", fieldGroup: "6", fieldStart: "99", fieldThreads: "1", fieldEnvironEnd: "18446744073709551615"})
		stat, ok := ParseStat([]byte(text))
		want := Stat{PID: 42, Parent: 7, Group: 6, Start: 99, Name: name, State: 'S', Live: true}
		if stat != want || !ok {
			t.Errorf("%q: %+v, %v", name, stat, ok)
		}
	}
}

func TestParseStat_ReportsEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		state   string
		threads string
		live    bool
	}{{"R", "1", true}, {"D", "1", true}, {"T", "1", true}, {"Z", "1", false}, {"Z", "0", false}, {"X", "0", false}, {"Z", "2", true}} {
		stat, ok := ParseStat([]byte(line("x", test.state, map[int]string{fieldThreads: test.threads, fieldGroup: "-1"})))
		if !ok || stat.Live != test.live || stat.State != test.state[0] || stat.Group != -1 {
			t.Errorf("%v: %+v, %v", test, stat, ok)
		}
	}
}

func TestParseStat_ReportsKindAndTimes(t *testing.T) {
	t.Parallel()
	stat, ok := ParseStat([]byte(line("k", "I", map[int]string{
		fieldFlags: "2129984", fieldUser: "1", fieldSystem: "20", fieldChildrenUser: "300", fieldChildrenSystem: "4000",
	})))
	if !ok || !stat.Kernel || !stat.Bare || stat.Used != 210*time.Millisecond || stat.ChildrenUsed != 43*time.Second {
		t.Errorf("%+v, %v", stat, ok)
	}
	stat, ok = ParseStat([]byte(line("u", "R", map[int]string{fieldFlags: "4194304", fieldEnvironEnd: "140737488347117"})))
	if !ok || stat.Kernel || stat.Bare {
		t.Errorf("%+v, %v", stat, ok)
	}
}

func TestParseStat_RefusesOtherText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "1", "1 (x", "x) (1 S", "1 (x) S 1 2 3", "1 (x) S" + strings.Repeat(" 1", fieldsNeeded-2), "y (x) S" + strings.Repeat(" 1", 60),
		"1 (x) S z" + strings.Repeat(" 1", 60), line("x", "S", map[int]string{fieldStart: "z"}), line("x", "S", map[int]string{fieldGroup: "z"}),
	} {
		if stat, ok := ParseStat([]byte(text)); ok {
			t.Errorf("%q: %+v", text, stat)
		}
	}
}
