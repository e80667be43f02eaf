package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var logPromises = []promise{
	{"chunks are read back in order and whole", logsWhole},
	{"chunks sent again change nothing, other ones conflict", logsResent},
	{"a stale writer adds nothing to a log", logsStale},
	{"the last chunk comes with the end of its attempt", logsLast},
	{"an attempt that wrote nothing has an end to read all the same", logsSilent},
	{"the next driver knows where the log of an attempt ends whose publish is to come", logsOfPublish},
}

// chunks returns chunks of the first attempt of the first step.
func chunks(c *queue.Claim, at dagrun.Time, from int, texts ...string) []queue.Chunk {
	var list []queue.Chunk
	for i, t := range texts {
		list = append(list, queue.Chunk{
			Run: c.Run, Attempt: 1, Day: queue.LogDay(at), Seq: from + i, Stream: queue.StreamStdout, At: moment(at), Data: []byte(t),
		})
	}
	return list
}

// logged returns the stored chunks of the first attempt of the first step.
func (s *setup) logged(id queue.RunID) []queue.Chunk {
	s.Helper()
	var all []queue.Chunk
	for {
		some, err := s.Logs.ReadLogs(s.Context(), queue.LogQuery{Run: id, Step: "a", Attempt: 1, From: len(all)})
		s.must(err)
		if len(some) == 0 {
			return all
		}
		all = append(all, some...)
	}
}

func (s *setup) wantLog(id queue.RunID, want string) []queue.Chunk {
	s.Helper()
	all := s.logged(id)
	var b strings.Builder
	for i := range all {
		if all[i].Seq != i {
			s.Errorf("chunk %d has number %d", i, all[i].Seq)
		}
		b.Write(all[i].Data)
	}
	if b.String() != want {
		s.Errorf("log %q, want %q", b.String(), want)
	}
	return all
}

func logsWhole(s *setup) {
	id := s.start(single)
	w := s.worker()
	c := s.claimOne(w)
	at := s.now(w)
	s.must(s.record(w, c, row(0, 1, dagrun.TaskRunning, at)))
	s.must(w.AppendLogs(s.Context(), chunks(c, at, 0, "one\n", "\x00\xff two\n", "three\n")))
	special := chunks(c, at, 3, "four\n")
	special[0].Stream, special[0].Dropped, special[0].At = queue.StreamStderr, 77, moment(at).Add(time.Second)
	s.must(w.AppendLogs(s.Context(), special))
	all := s.wantLog(id, "one\n\x00\xff two\nthree\nfour\n")
	last := all[len(all)-1]
	if last.Stream != queue.StreamStderr || last.Dropped != 77 || !last.At.Equal(special[0].At) || last.Final || !last.Day.Equal(special[0].Day) {
		s.Errorf("chunk %+v", last)
	}
	some, err := s.Logs.ReadLogs(s.Context(), queue.LogQuery{Run: id, Step: "a", Attempt: 1, From: 1, Limit: 2})
	s.must(err)
	if len(some) != 2 || some[0].Seq != 1 || some[1].Seq != 2 {
		s.Errorf("read %+v", some)
	}
	many := make([]string, 50)
	for i := range many {
		many[i] = fmt.Sprintln("line", i)
	}
	s.must(w.AppendLogs(s.Context(), chunks(c, at, 4, many...)))
	s.wantLog(id, "one\n\x00\xff two\nthree\nfour\n"+strings.Join(many, ""))
}

func logsResent(s *setup) {
	id := s.start(single)
	w := s.worker()
	c := s.claimOne(w)
	at := s.now(w)
	s.must(s.record(w, c, row(0, 1, dagrun.TaskRunning, at)))
	s.must(w.AppendLogs(s.Context(), chunks(c, at, 0, "one", "two")))
	s.must(w.AppendLogs(s.Context(), chunks(c, at, 0, "one", "two")))
	s.must(w.AppendLogs(s.Context(), chunks(c, at, 1, "two", "three")))
	s.wantError(w.AppendLogs(s.Context(), chunks(c, at, 2, "other")), queue.ErrConflict)
	s.wantLog(id, "onetwothree")
}

func logsStale(s *setup) {
	id := s.start(single)
	a := s.worker()
	c := s.claimOne(a)
	at := s.now(a)
	s.must(s.record(a, c, row(0, 1, dagrun.TaskRunning, at)))
	s.must(a.AppendLogs(s.Context(), chunks(c, at, 0, "one", "two")))
	b := s.worker(replacing(a))
	again := s.claimOne(b)
	s.wantError(a.AppendLogs(s.Context(), chunks(c, at, 2, "late")), queue.ErrLeaseLost)
	loaded := s.load(b, again)
	want := []queue.LogEnd{{Attempt: 1, Day: queue.LogDay(at), Next: 2}}
	s.same("where the log ends", loaded.Logs, want)
	final := chunks(again, at, 2, "")
	final[0].Final, final[0].Reason, final[0].Stream = true, "lost", queue.StreamOarlock
	s.must(b.AppendLogs(s.Context(), final))
	s.wantError(a.AppendLogs(s.Context(), chunks(c, at, 2, "late")), queue.ErrLeaseLost)
	all := s.wantLog(id, "onetwo")
	if last := all[len(all)-1]; !last.Final || last.Reason != "lost" {
		s.Errorf("the last chunk is %+v", last)
	}
	want[0].Next, want[0].Final = 3, true
	s.same("where the log ends", s.load(b, again).Logs, want)
}

func logsLast(s *setup) {
	id := s.start(single)
	w := s.worker()
	c := s.claimOne(w)
	at := s.now(w)
	s.must(s.record(w, c, row(0, 1, dagrun.TaskRunning, at)))
	s.must(w.AppendLogs(s.Context(), chunks(c, at, 0, "one")))
	last := chunks(c, at, 1, "two", "")
	last[1].Final, last[1].Reason, last[1].Stream = true, "succeeded", queue.StreamOarlock
	b := finish(c, c.Inbox, at, row(0, 2, dagrun.TaskSucceeded, at))
	b.Chunks = last
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbPause})
	s.wantError(w.Commit(s.Context(), b), queue.ErrInboxMoved)
	s.wantLog(id, "one") // nothing of the refused batch was stored
	box := s.mail(w, c)
	b.Seen = box.Inbox
	b.Records.Controls = []dagrun.Decision{{ID: box.Controls[0].ID, Outcome: dagrun.Refused, State: "succeeded", Message: "too late"}}
	s.must(w.Commit(s.Context(), b))
	all := s.wantLog(id, "onetwo")
	if len(all) != 3 || !all[2].Final {
		s.Errorf("chunks %+v", all)
	}
	s.wantError(w.AppendLogs(s.Context(), chunks(c, at, 3, "late")), queue.ErrLeaseLost)
	s.wantLog(id, "onetwo")
}

func logsSilent(s *setup) {
	id := s.start(single)
	w := s.worker()
	c := s.claimOne(w)
	at := s.now(w)
	end := func(want string) {
		s.Helper()
		all := s.logged(id)
		if want == "" && len(all) == 0 {
			return
		}
		if len(all) != 1 || !all[0].Final || all[0].Reason != want || all[0].Stream != queue.StreamOarlock || len(all[0].Data) > 0 || all[0].At.IsZero() {
			s.Errorf("the log is %+v, want an end that says %q", all, want)
		}
		whole, err := s.Logs.ReadLogs(s.Context(), queue.LogQuery{Run: id})
		s.must(err)
		s.same("the log of the run", whole[:1][0].Reason, want)
	}
	s.must(s.record(w, c, row(0, 1, dagrun.TaskRunning, at)))
	end("")
	finishing := row(0, 2, dagrun.TaskFinishing, at)
	s.must(s.record(w, c, finishing))
	end("")
	failed := row(0, 3, dagrun.TaskRetrying, at)
	failed.Kind, failed.FinishedAt = dagrun.KindExit, at
	s.must(s.record(w, c, failed))
	end("exit")
	next := row(0, 4, dagrun.TaskRunning, at)
	next.Attempt = 2
	first := dagrun.AttemptRecord{ID: next.ID, Attempt: 1, Generation: 1, State: dagrun.TaskFailed, Kind: dagrun.KindExit, StartedAt: at, FinishedAt: at}
	s.must(w.Commit(s.Context(), &queue.Batch{
		Claim: c, Seen: c.Inbox, Records: dagrun.Records{Tasks: []dagrun.TaskRecord{next}, Attempts: []dagrun.AttemptRecord{first}},
	}))
	end("exit") // the log of the second attempt has no end yet, since that attempt runs
	done := row(0, 5, dagrun.TaskSucceeded, at)
	done.Attempt, done.FinishedAt = 2, at
	s.must(w.Commit(s.Context(), finish(c, c.Inbox, at, done)))
	end("exit")
	second, err := s.Logs.ReadLogs(s.Context(), queue.LogQuery{Run: id, Step: "a"})
	s.must(err)
	if len(second) != 1 || second[0].Reason != "succeeded" || second[0].Attempt != 2 {
		s.Errorf("the log of the second attempt is %+v", second)
	}
}

func logsOfPublish(s *setup) {
	s.start(single)
	a := s.worker()
	c := s.claimOne(a)
	at := s.now(a)
	s.must(s.record(a, c, row(0, 1, dagrun.TaskRunning, at)))
	s.must(a.AppendLogs(s.Context(), chunks(c, at, 0, "one", "two")))
	finishing, retrying, failed := row(0, 2, dagrun.TaskFinishing, at), row(0, 3, dagrun.TaskRetrying, at), row(0, 4, dagrun.TaskRetrying, at)
	retrying.Publishing = true
	for _, t := range []struct {
		rec  dagrun.TaskRecord
		want []queue.LogEnd
	}{
		{finishing, []queue.LogEnd{{Attempt: 1, Day: queue.LogDay(at), Next: 2}}},
		{retrying, []queue.LogEnd{{Attempt: 1, Day: queue.LogDay(at), Next: 2}}},
		{failed, nil},
	} {
		s.must(s.record(a, c, t.rec))
		a = s.worker(replacing(a))
		c = s.claimOne(a)
		s.same(fmt.Sprintf("where the log ends, %s", t.rec.State), s.load(a, c).Logs, t.want)
	}
}
