package weight

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/internal/procfs"
	"github.com/oarlock-dev/oarlock/queue"
)

// The streams, and the bounds of their cost: docs/scale.md promises these.
const (
	runStreams   = 500 // of one run: half of them of its page, half of the log of a step
	listFilters  = 20
	listStreams  = 5    // of each filter
	maxShare     = 0.30 // of a processor, for the process that serves
	maxListReads = 0.5  // statements a second, of each filter
	moreByWorker = 0.2  // extra statements a second of a worker beside many streams: its own pace differs
)

// steadyDAG runs as long as the test watches: a step writes five lines a second, and two items a second begin and end.
const steadyDAG = `
name: steady
queue: steady
steps:
  - {id: talk, run: "for i in $(seq 3000); do echo line $i; sleep 0.2; done"}
  - {id: walk, foreach: {items: [%s], max_concurrent: 2}, run: "sleep 1"}
`

// watch is the cost of a period of watching.
type watch struct {
	byPages, byLists, byWorker float64 // statements a second; byPages includes byLists
	share                      float64 // of a processor, for the process that serves
	residentKiB                int     // of that process, at the end
	received                   int64   // bytes
}

// streamsAreLight compares one stream of each page with many.
func (b *testBundle) streamsAreLight(t *testing.T) {
	items := make([]string, 1000)
	for i := range items {
		items[i] = fmt.Sprint(i)
	}
	b.put(t, fmt.Sprintf(steadyDAG, strings.Join(items, ", ")))
	run := b.enqueue(t, "steady")
	b.start(t, b.db.Login(t, "oarlock_worker"), "worker", "--queue", "steady", "--name", "steady")
	await.True(t, "the run goes on", func() bool {
		r, err := b.store.Get(t.Context(), run)
		return err == nil && r.State == "running"
	})
	served, said := b.start(t, b.db.User(t, "pages", "oarlock_read"), "web", "--listen", "127.0.0.1:0")
	await.True(t, "pages are served", func() bool { return addressText.MatchString(said.String()) })
	address := addressText.FindStringSubmatch(said.String())[1]

	one := b.watch(t, served, address, run, 1, 0)
	many := b.watch(t, served, address, run, runStreams/2, listStreams)
	perList := many.byLists / listFilters
	t.Logf("1 + 1 streams of a run: pages send %.1f statements/s, the worker %.1f, %.1f %% of a processor", one.byPages, one.byWorker, 100*one.share)
	t.Logf("%d streams of a run, %d of %d lists: pages send %.1f statements/s (%.2f a list), the worker %.1f, %.1f %% of a processor, %d MiB resident, %.1f KiB/s a stream",
		runStreams, listFilters*listStreams, listFilters, many.byPages, perList, many.byWorker, 100*many.share, many.residentKiB>>10,
		float64(many.received)/1024/watchTime.Seconds()/(runStreams+listFilters*listStreams))
	if many.share > maxShare {
		t.Errorf("%.1f %% of a processor, at most %.0f", 100*many.share, 100*maxShare)
	}
	if perList > maxListReads {
		t.Errorf("%.2f statements/s for each list, at most %.1f", perList, maxListReads)
	}
	if many.byWorker > one.byWorker*(1+moreByWorker)+1 {
		t.Errorf("the worker sends %.1f statements/s, and %.1f where few look on", many.byWorker, one.byWorker)
	}
	if r, err := b.store.Get(t.Context(), run); err != nil || r.State != "running" {
		t.Errorf("the run is %+v, %v: it was to go on", r, err)
	}
	if _, err := b.store.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbCancel}); err != nil {
		t.Error(err)
	}
	within, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := b.store.Await(within, run); err != nil { // else the worker would wait for the run
		t.Error(err)
	}
}

var addressText = regexp.MustCompile(`page +(http://\S+)/`)

// watch opens streams of two pages of a run, and of lists. It waits until each has brought something, and then measures
// for a while.
func (b *testBundle) watch(t *testing.T, served int, address string, run queue.RunID, ofEach, ofLists int) watch {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	v := &viewers{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: -1}}}
	defer v.all.Wait()
	defer end()
	for range ofEach {
		v.follow(ctx, t, fmt.Sprintf("%s/live/runs/%d?step=walk", address, run))
		v.follow(ctx, t, fmt.Sprintf("%s/live/runs/%d/steps/talk/log", address, run))
	}
	for i := range listFilters {
		for range ofLists {
			v.follow(ctx, t, fmt.Sprint(address, "/live/runs?", listFilter(i)))
		}
	}
	await.True(t, "each stream brought something", func() bool { return v.begun.Load() == int64(2*ofEach+listFilters*ofLists) })
	if ofLists > 0 { // a read that took long at the start, when all streams read, delays the next one
		lists := b.calls(t, "pages", "queue/list_looked")
		await.True(t, "lists are read again", func() bool { return b.calls(t, "pages", "queue/list_looked") >= lists+3*listFilters })
	}
	pages, lists, worker := b.calls(t, "pages", ""), b.calls(t, "pages", "queue/list_looked"), b.calls(t, "worker", "")
	used, received, begun := processorTime(t, served), v.received.Load(), time.Now()
	select {
	case <-t.Context().Done():
	case <-time.After(*watchTime):
	}
	seconds := time.Since(begun).Seconds()
	w := watch{
		byPages: float64(b.calls(t, "pages", "")-pages) / seconds, byLists: float64(b.calls(t, "pages", "queue/list_looked")-lists) / seconds,
		byWorker: float64(b.calls(t, "worker", "")-worker) / seconds,
		share:    (processorTime(t, served) - used).Seconds() / seconds, residentKiB: resident(t, served), received: v.received.Load() - received,
	}
	if n := v.ended.Load(); n > 0 {
		t.Errorf("%d streams ended", n)
	}
	if w.received == 0 {
		t.Error("no stream brought anything")
	}
	return w
}

// listFilter returns a filter of a list: a DAG and a state, a DAG, a DAG and a label, or a time.
func listFilter(i int) string {
	forms := []string{"dag=dag-%d&state=failed", "dag=dag-%d", "dag=dag-%d&label=team%%3Dteam-1", "since=%dh"}
	return fmt.Sprintf(forms[i%len(forms)], i+1)
}

// viewers are browsers that follow pages.
type viewers struct {
	client                 *http.Client
	all                    sync.WaitGroup
	begun, ended, received atomic.Int64 // streams that brought something, streams that ended by themselves; bytes
}

// follow reads a stream until ctx ends.
func (v *viewers) follow(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	v.all.Go(func() {
		answer, err := v.client.Do(request)
		if err == nil {
			defer answer.Body.Close()
			v.read(answer.Body)
		}
		if ctx.Err() == nil {
			v.ended.Add(1)
		}
	})
}

func (v *viewers) read(from io.Reader) {
	part, brought := make([]byte, 32<<10), false
	for {
		n, err := from.Read(part)
		v.received.Add(int64(n))
		if !brought && strings.Contains(string(part[:n]), "event: ") {
			brought = true
			v.begun.Add(1)
		}
		if err != nil {
			return
		}
	}
}

// processorTime returns how much processor time a process has used.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := procfs.ReadStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	return stat.Used
}

// resident returns how much memory a process holds, in KiB.
func resident(t *testing.T, pid int) int {
	t.Helper()
	value, err := procfs.StatusValue(pid, "VmRSS")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSuffix(value, " kB"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
