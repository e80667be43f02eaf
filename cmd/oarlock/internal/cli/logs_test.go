package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// shownLogs is the output of a line sink.
type shownLogs struct{ stdout, stderr string }

// showChunks passes chunks to a sink, first the stored ones and then the live ones.
func showChunks(t *testing.T, terminal bool, o *logsOptions, stored, live []queue.Chunk) shownLogs {
	t.Helper()
	var stdout, stderr strings.Builder
	e := &env{Env: testEnv()}
	e.Stdout, e.Stderr, e.StdoutTTY, e.StderrTTY = &stdout, &stderr, terminal, false
	var err error
	if e.settings, err = config.Load(settingKeys(), config.Sources{Lookup: e.Lookup}); err != nil {
		t.Fatal(err)
	}
	s := newLineSink(e, o, &queue.LogReader{})
	s.named, s.started = o.query.Step == "", true // as when there are several tasks
	for i, part := range [][]queue.Chunk{stored, live} {
		for j := range part {
			if err := s.add(&part[j]); err != nil {
				t.Fatal(err)
			}
		}
		if i == 0 {
			err = s.live()
		} else if err = s.idle(); err == nil {
			err = s.end()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return shownLogs{stdout.String(), stderr.String()}
}

// piece returns a chunk of attempt 1 of a step.
func piece(step, text string) queue.Chunk {
	return queue.Chunk{
		Task: dagrun.TaskID{Step: int(step[0])}, Step: step, Attempt: 1, Stream: queue.StreamStdout, Data: []byte(text),
		At: time.Date(2026, 11, 20, 1, 2, 3, 4e6, time.UTC),
	}
}

func (s shownLogs) want(t *testing.T, stdout, stderr string) {
	t.Helper()
	if s.stdout != stdout || s.stderr != stderr {
		t.Errorf("printed\n%.300q\n%.300q\nwant\n%.300q\n%.300q", s.stdout, s.stderr, stdout, stderr)
	}
}

func all() *logsOptions { return &logsOptions{tail: -1} }

func ofStep() *logsOptions {
	o := all()
	o.query.Step = "a"
	return o
}

func TestLogs_NamesEarlierAttempts(t *testing.T) {
	t.Parallel()
	var tries earlierTries
	again, item := piece("load", "x"), piece("each", "y")
	again.Attempt, item.Attempt, item.Task.Item = 4, 2, "a b"
	first := piece("once", "z")
	tries.add(&first)
	if got := tries.text(7); got != "" {
		t.Errorf("of first attempts: %q", got)
	}
	tries.add(&again)
	if got, want := tries.text(7), "load: this was attempt 4; to read an earlier attempt: oarlock logs 7 load --attempt 1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	tries.add(&item)
	if got, want := tries.text(7), "load: this was attempt 4; to read an earlier attempt: oarlock logs 7 load --attempt 1 (1 task more had several attempts)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLogs_JoinsLinesThatWereStoredInPieces(t *testing.T) {
	t.Parallel()
	chunks := []queue.Chunk{piece("a", "on"), piece("b", "other\npart"), piece("a", "e\ntwo\nth"), piece("b", "ly"), piece("a", "ree\n")}
	showChunks(t, false, all(), chunks, nil).want(t, "b | other\na | one\na | two\na | three\nb | partly\n", "")
}

func TestLogs_OfOneTaskAreItsBytes(t *testing.T) {
	t.Parallel()
	text := "a\x00\x1b[2Jb\r\n\xff\n" + strings.Repeat("x", 3*maxLogLine+7) + "\nend"
	var chunks []queue.Chunk
	for part := range slices.Chunk([]byte(text), 1000) {
		chunks = append(chunks, piece("a", string(part)))
	}
	showChunks(t, false, ofStep(), chunks, nil).want(t, text, "")
	showChunks(t, false, ofStep(), nil, chunks).want(t, text, "")
}

func TestLogs_PadsNamesOfItemsThatAreLongerThanSteps(t *testing.T) {
	t.Parallel()
	item := piece("b", "two\n")
	item.Task.Item, item.Task.Step = "eu-west", int('b')
	long := piece("c", "four\n")
	long.Task.Item = strings.Repeat("x", maxNameColumn)
	chunks := []queue.Chunk{item, piece("a", "one\n"), long, piece("a", "three\n")}
	showChunks(t, false, all(), chunks, nil).want(t, "b/eu-west | two\na         | one\nc/"+strings.Repeat("x", maxNameColumn)+" | four\na"+
		strings.Repeat(" ", maxNameColumn-1)+" | three\n", "")
}

func TestLogs_FoldsEndlessLines(t *testing.T) {
	t.Parallel()
	got := showChunks(t, false, all(), []queue.Chunk{piece("a", strings.Repeat("x", maxLogLine)), piece("a", "yz\n")}, nil)
	got.want(t, "a | "+strings.Repeat("x", maxLogLine)+"\na | yz\n", "")
}

func TestLogs_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	gap, lost, capped := piece("a", "after\n"), piece("a", ""), piece("a", "past 64 MiB\nnothing is kept")
	gap.Dropped = 7
	lost.Stream, lost.Final, lost.Reason = queue.StreamOarlock, true, "lost"
	capped.Stream = queue.StreamOarlock
	again := piece("a", "again\n")
	again.Attempt = 2
	showChunks(t, false, all(), []queue.Chunk{piece("a", "before, un"), gap, capped, piece("a", "cut"), lost, again}, nil).want(t,
		"a | before, un\na | after\na | cut\na | again\n",
		"[a: 7 bytes are missing here]\n[a: past 64 MiB nothing is kept]\n"+
			"[a: attempt 1 was lost with its worker: the last output of the attempt may be missing]\n[a: attempt 2]\n")
}

func TestLogs_BeginsWithTheLastLines(t *testing.T) {
	t.Parallel()
	var chunks []queue.Chunk
	for i := range 10 {
		chunks = append(chunks, piece("a", fmt.Sprintf("%d\n%d.5\n", i, i)))
	}
	o := all()
	o.tail = 3
	showChunks(t, false, o, chunks[:9], chunks[9:]).want(t, "a | 7.5\na | 8\na | 8.5\na | 9\na | 9.5\n", "")
	o.tail, o.grep = 1, regexp.MustCompile(`^[36]$`)
	showChunks(t, false, o, chunks, nil).want(t, "a | 6\n", "")
	o.tail, o.grep = 0, nil
	showChunks(t, false, o, chunks[:9], chunks[9:]).want(t, "a | 9\na | 9.5\n", "")
}

func TestLogs_ShowsTimesAndStreams(t *testing.T) {
	t.Parallel()
	o := ofStep()
	o.timestamps, o.stream = true, queue.StreamStderr
	bad := piece("a", "bad\n")
	bad.Stream = queue.StreamStderr
	showChunks(t, false, o, []queue.Chunk{piece("a", "good\n"), bad}, nil).want(t, "2026-11-20T01:02:03.004Z bad\n", "")
}

func TestLogs_OnATerminalAreHarmless(t *testing.T) {
	t.Parallel()
	showChunks(t, true, ofStep(), []queue.Chunk{piece("a", "\x1b]0;title\aPass\x1b[2Jword\n"), piece("a", "Name? ")}, nil).want(t, "Password\nName? \n", "")
	got := showChunks(t, true, all(), []queue.Chunk{piece("load", "x\n")}, nil).stdout
	if !regexp.MustCompile("^\x1b\\[\\d+mload\x1b\\[0m\x1b\\[2m \\| \x1b\\[0mx\n$").MatchString(got) {
		t.Errorf("a coloured name is %q", got)
	}
}

func TestTailSink_CutsBytesAtALine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		chunks []string
		lines  int
		want   string
	}{
		{[]string{"a\nb\n", "c\n"}, 2, "b\nc\n"},
		{[]string{"a\nb", "b\nc\nd"}, 2, "c\nd"},
		{[]string{"a\nb", "bb", "b\n"}, 1, "bbbb\n"},
		{[]string{"a"}, 5, "a"},
		{[]string{"a\n"}, 0, ""},
		{[]string{"a\n", "", "b"}, 1, "b"},
	} {
		var out strings.Builder
		s := newTailSink(c.lines, &rawSink{env: &env{Env: Env{Stdout: &out}}}, true)
		for _, text := range c.chunks {
			chunk := piece("a", text)
			if err := s.add(&chunk); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.live(); err != nil || out.String() != c.want {
			t.Errorf("last %d of %q: %q, %v, want %q", c.lines, c.chunks, out.String(), err, c.want)
		}
	}
}
