package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// example is what a run of an example must do.
type example struct {
	request queue.Request
	alone   bool                                       // it looks at other runs, so it runs before them
	during  func(*testing.T, *testBundle, queue.RunID) // what users do meanwhile
	want    string                                     // the state of the run and of its tasks
	says    map[string]string                          // text in the logs of tasks
	after   func(*testing.T, *testBundle, queue.RunID)
}

var examplesByFile = map[string]example{
	"first/hello": {
		request: queue.Request{Params: map[string]any{"who": "ana"}},
		want:    "succeeded greet=succeeded count=succeeded wave=succeeded",
		says:    map[string]string{"greet": "hello ana", "count": "a name of 3 letters"},
	},
	"outputs/outputs": {
		want: "succeeded measure=succeeded warn=succeeded frost=skipped log=succeeded",
		says: map[string]string{"warn": "harbour: 14 knots", "log": "first line\nsecond line\n{"},
	},
	"outputs/stdout": {
		want: "succeeded find=succeeded stock=succeeded weigh=succeeded weigh/oars=succeeded weigh/rope=succeeded order=succeeded thank=skipped",
		says: map[string]string{"order": "4 oars from the harbour, weights [\"4 kg\",\"4 kg\"]"},
	},
	"retries/flaky": {
		want: "succeeded call=succeeded follow-up=succeeded",
		says: map[string]string{"call": "attempt 3 with key oarlock-"},
	},
	"handlers/handlers": {
		want: "failed work=failed after=upstream_failed @init=succeeded @failure=succeeded @exit=succeeded",
		says: map[string]string{"@failure": `state failed, failed: ["work"]`, "@exit": "the lock is given back"},
	},
	"overlap/overlap": {
		want:  "succeeded build=succeeded lint=succeeded test=succeeded ship=succeeded",
		says:  map[string]string{"build": "pushing app:42", "ship": "shipping app:42"},
		alone: true, // a step that waits for a slot does not overlap
		after: overlaps,
	},
	"search/searches": {
		want: "succeeded collect=succeeded search=succeeded search/anchor=skipped search/boat=succeeded search/lock=succeeded search/oar=succeeded summary=succeeded",
		says: map[string]string{"search/lock": "2:an oarlock holds the oar\n3:a lock on the boat house", "summary": "3 of 4 words were found"},
	},
	"batches/import": {
		want: "succeeded list=succeeded load=succeeded load/1=succeeded load/5=succeeded load/9=succeeded done=succeeded",
		says: map[string]string{"load/5": "one insert for [5,6,7,8]", "load/9": "one insert for [9,10]", "done": "3 inserts"},
	},
	"fanout/thumbnails": {
		want: "succeeded list=succeeded shrink=succeeded shrink/boat.png=succeeded shrink/broken.tif=replaced shrink~1/broken.tif=succeeded shrink/harbour.jpg=succeeded shrink/oar.webp=succeeded summary=succeeded",
		says: map[string]string{"shrink~1/broken.tif": "slow encoder: broken.tif"},
	},
	"replacements/split": {
		want: "succeeded search=replaced search~1=succeeded search~2=succeeded solve=replaced solve~1=replaced solve~2=succeeded solve~3=succeeded solve~4=succeeded merge=succeeded",
		says: map[string]string{"search~2": "19", "solve~3": "solved to 4 digits, after attempt 1", "merge": "the best of 2 halves is 19"},
	},
	"matrix/matrix": {
		want: "succeeded build=succeeded build/linux-24=succeeded build/linux-25=succeeded build/linux-26=succeeded build/mac-25=succeeded build/mac-26=succeeded build/windows-26=succeeded test-all=succeeded publish=succeeded",
		says: map[string]string{"build/mac-25": "for mac, everything below version 26", "test-all": "testing --full --files=app-linux.tar,app-mac.tar,app-windows.tar"},
	},
	"children/day": {
		request: queue.Request{Params: map[string]any{"day": "2026-11-20"}},
		want:    "succeeded count=succeeded",
		says:    map[string]string{"count": "counting 2026-11-20"},
	},
	"children/week": {
		want: "succeeded each-day=succeeded each-day/2026-11-16=succeeded each-day/2026-11-17=succeeded each-day/2026-11-18=succeeded cleanup=succeeded report=succeeded",
		says: map[string]string{"report": "3 days are done"},
	},
	"spread/spread": {
		want: "succeeded prepare=succeeded train=succeeded train/1=succeeded train/2=succeeded train/3=succeeded train/4=succeeded collect=succeeded",
		says: map[string]string{"collect": "4 parts are trained"},
	},
	"spread/train-part": {
		request: queue.Request{Params: map[string]any{"part": 7}},
		want:    "succeeded train=succeeded",
		says:    map[string]string{"train": "part 7 on "},
	},
	"cache/sums": {
		want:  "succeeded sum=succeeded show=succeeded",
		says:  map[string]string{"show": "the sum is 42"},
		after: cachedNextTime,
	},
	"http/publish": {
		want: "succeeded where=succeeded service=succeeded post=succeeded visible=succeeded tell=succeeded",
		says: map[string]string{"tell": "published with status 201"},
	},
	"notify/notify": {
		want: "failed load=failed @failure=succeeded",
		says: map[string]string{"@failure": "POST ${secrets.SLACK_WEBHOOK}: 200 in "},
	},
	"report/nightly-report": {
		alone: true,
		want:  "succeeded ask=succeeded failures=succeeded page=succeeded wake-somebody=skipped",
		says:  map[string]string{"page": `"dag":"nightly-report"`},
	},
	"enqueue/report": {
		request: queue.Request{Params: map[string]any{"order": 7}},
		want:    "succeeded render=succeeded",
		says:    map[string]string{"render": "report of order 7"},
	},
	"events/order-paid": {
		request: queue.Request{
			Params:      map[string]any{"order": 1234, "email": "ana@example.org", "express": true},
			Precomputed: json.RawMessage(`{"fraud-check": {"outputs": {"verdict": "clean"}}}`),
		},
		want: "succeeded fraud-check=succeeded reserve=succeeded pick=succeeded tell=succeeded",
		says: map[string]string{"pick": "order 1234 from shelf A7"},
	},
	"etl/nightly": {
		want:  "succeeded extract-orders=succeeded extract-customers=succeeded prepare=succeeded transform=succeeded load=succeeded report=succeeded",
		says:  map[string]string{"report": "2026-11-20: 3000 facts loaded"},
		after: loadedOnce,
	},
	"nightly-catchup/nightly-catchup": {
		want:  "succeeded load=succeeded report=succeeded",
		says:  map[string]string{"report": "from the beginning to "},
		after: aNight,
	},
	"one-per-tenant/tenant-report": {
		request: queue.Request{Params: map[string]any{"tenant": "acme"}},
		want:    "succeeded report=succeeded",
		says:    map[string]string{"report": "report for acme, by hand"},
		after:   oneEach,
	},
	"limits/tenant-import": {
		request: queue.Request{Params: map[string]any{"tenant": "acme"}},
		want:    "succeeded load=succeeded",
		says:    map[string]string{"load": "orders.csv of acme"},
	},
	"limits/build-farm": {
		want: "succeeded lint=succeeded compile=succeeded link=succeeded test=succeeded test/system=succeeded test/unit=succeeded",
		says: map[string]string{"link": "linking oars", "test/unit": "unit tests of oars"},
	},
	"limits/api-budget": {
		request: queue.Request{Params: map[string]any{"tenant": "acme"}},
		want:    "succeeded fetch=succeeded tell=succeeded",
		says:    map[string]string{"fetch": "merging 42 rows", "tell": "acme is up to date"},
	},
	"month-backfill/daily-report": {
		want:  "succeeded report=succeeded",
		says:  map[string]string{"report": "has what came from the beginning to "},
		after: aMonth,
	},
	"takeover/takeover": {
		want: "succeeded prepare=succeeded work=succeeded finish=succeeded",
		says: map[string]string{"work": "attempt 1: there it is"},
	},
	"release/release": {
		request: queue.Request{Params: map[string]any{"version": "v1.2.3", "watch": "100ms"}},
		during:  approve,
		want:    "succeeded build=succeeded lint=succeeded test=succeeded approve=succeeded canary=succeeded watch=succeeded rollout=succeeded rollback=skipped @exit=succeeded",
		says:    map[string]string{"canary": "1 % of the traffic, see T-1", "@exit": "release lock of v1.2.3 is free again"},
	},
}

// TestExamples_Run applies every example with the command line, and has one worker run all of them at once.
func TestExamples_Run(t *testing.T) {
	t.Parallel()
	b := setup(t)
	files, err := filepath.Glob("../examples/*/*.yaml")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	conn := b.db.Conn(t)
	for _, statement := range []string{read(t, "../examples/etl/table.sql"), read(t, "../examples/limits/pools.sql")} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	people := *b
	people.url = b.db.URL
	people.oarlock(t, append([]string{"dag", "apply"}, absolute(t, files)...)...)
	site := site(t)
	b.worker(t, "w1", "slots=16", "http_allow=127.0.0.0/8", "labels=gpu=true", "$SLACK_WEBHOOK="+site+"/services/T0/B0")
	t.Run("example", func(t *testing.T) {
		for _, file := range files {
			folder, name := filepath.Split(strings.TrimSuffix(file, ".yaml"))
			x, ok := examplesByFile[filepath.Base(folder)+"/"+name]
			if !ok {
				t.Errorf("%s: say in examplesByFile what becomes of it", file)
				continue
			}
			x.request.DAG = dagName(t, file)
			if name == "publish" {
				x.request.Params = map[string]any{"site": site}
			}
			t.Run(name, func(t *testing.T) {
				if !x.alone {
					t.Parallel() // run when the loop is over
				}
				x.run(t, b)
			})
		}
	})
	if len(files) != len(examplesByFile) {
		t.Errorf("%d files, and %d that are tested", len(files), len(examplesByFile))
	}
}

func absolute(t *testing.T, files []string) (all []string) {
	t.Helper()
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, path)
	}
	return all
}

func dagName(t *testing.T, file string) string {
	t.Helper()
	for line := range strings.Lines(read(t, file)) {
		if name, ok := strings.CutPrefix(line, "name: "); ok {
			return strings.TrimSpace(name)
		}
	}
	t.Fatalf("%s has no name", file)
	return ""
}

func (x *example) run(t *testing.T, b *testBundle) {
	run, err := b.Enqueue(t.Context(), x.request)
	if err != nil {
		t.Fatal(err)
	}
	if x.during != nil {
		x.during(t, b, run)
	}
	got, want := strings.Fields(b.await(t, run)), strings.Fields(x.want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for task, text := range x.says {
		step, item, _ := strings.Cut(task, "/")
		if got := b.logOf(t, run, step, item); !strings.Contains(got, text) {
			t.Errorf("%s says %q, want %q", task, got, text)
		}
	}
	if x.after != nil {
		x.after(t, b, run)
	}
}

// logOf returns the log of a task's last attempt.
func (b *testBundle) logOf(t *testing.T, run queue.RunID, step, item string) string {
	t.Helper()
	chunks, err := b.ReadLogs(t.Context(), queue.LogQuery{Run: run, Step: step, Item: item})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for i := range chunks {
		text.Write(chunks[i].Data)
	}
	return text.String()
}

func approve(t *testing.T, b *testBundle, run queue.RunID) {
	t.Helper()
	ask := queue.Ask{Run: run, Verb: dagrun.VerbApprove, Step: "approve", Outputs: json.RawMessage(`{"ticket": "T-1"}`)}
	until(t, "it waits for approval", func() bool { return strings.Contains(b.shown(t, run), "approve=waiting") })
	c, err := b.Control(t.Context(), ask)
	if err == nil {
		c, err = b.AwaitControl(t.Context(), c)
	}
	if err != nil || c.Outcome != "applied" {
		t.Errorf("approve: %+v, %v", c, err)
	}
}

// overlaps checks that steps started before the ends that other steps would wait for.
func overlaps(t *testing.T, b *testBundle, run queue.RunID) {
	t.Helper()
	tasks, err := b.Tasks(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	byStep := map[string]*queue.Task{}
	for i := range tasks {
		byStep[tasks[i].Step] = &tasks[i]
	}
	for _, step := range []string{"lint", "test"} {
		if byStep[step].StartedAt.After(byStep["build"].FinishedAt) {
			t.Errorf("%s began after the build had ended", step)
		}
	}
}

// cachedNextTime runs the example again.
func cachedNextTime(t *testing.T, b *testBundle, _ queue.RunID) {
	t.Helper()
	run := b.enqueue(t, "sums", nil)
	b.await(t, run)
	tasks, err := b.Tasks(t.Context(), run)
	if err != nil || tasks[0].Reason != "cached" {
		t.Errorf("the second run's sum: %+v, %v", tasks[0], err)
	}
}

// loadedOnce expects the row that the run's SQL wrote, in the transaction that also holds its outcome.
func loadedOnce(t *testing.T, b *testBundle, _ queue.RunID) {
	t.Helper()
	conn := b.db.Conn(t)
	defer conn.Close(context.WithoutCancel(t.Context()))
	var days, facts int
	if err := conn.QueryRow(t.Context(), read(t, "testdata/facts.sql")).Scan(&days, &facts); err != nil || days != 1 || facts != 3000 {
		t.Errorf("%d days with %d facts, %v", days, facts, err)
	}
}

// aNight triggers a schedule for a time, as if it had fired: the run loads what came since the night before.
func aNight(t *testing.T, b *testBundle, _ queue.RunID) {
	t.Helper()
	conn := b.db.Conn(t)
	defer conn.Close(context.WithoutCancel(t.Context()))
	var run queue.RunID
	if err := conn.QueryRow(t.Context(), read(t, "testdata/night.sql")).Scan(&run); err != nil {
		t.Fatal(err)
	}
	b.await(t, run)
	const want = "from 2026-11-19T02:30:00Z to 2026-11-20T02:30:00Z:\n[{\"orders\":24}]"
	if got := b.logOf(t, run, "report", ""); !strings.Contains(got, want) {
		t.Errorf("the night's report is %q, want %q", got, want)
	}
}

// aMonth backfills a month with runs about their own days. The command in the file's comment foretells them.
func aMonth(t *testing.T, b *testBundle, _ queue.RunID) {
	t.Helper()
	_, line, _ := strings.Cut(read(t, "../examples/month-backfill/daily-report.yaml"), "#   oarlock ")
	line, _, _ = strings.Cut(line, "\n")
	out, err := exec.Command(program, append(strings.Fields(line), "--database-url", b.db.URL)...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "of 31 times 31 would fire, and 0 would be skipped") {
		t.Errorf("oarlock %s: %v\n%s", line, err, out)
	}
	conn := b.db.Conn(t)
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), read(t, "../examples/month-backfill/month.sql")); err != nil {
		t.Fatal(err)
	}
	var days int
	var first queue.RunID
	until(t, "31 days have their report", func() bool {
		if err := conn.QueryRow(t.Context(), read(t, "testdata/month.sql")).Scan(&days, &first); err != nil {
			t.Fatal(err)
		}
		return days == 31
	})
	const want = "report-2026-10-01.csv has what came from 2026-09-30T22:15:00Z to 2026-10-01T22:15:00Z"
	if got := b.logOf(t, first, "report", ""); !strings.Contains(got, want) {
		t.Errorf("the first day's report is %q, want %q", got, want)
	}
}

// oneEach makes an application that may only submit keep a schedule for each tenant.
func oneEach(t *testing.T, b *testBundle, _ queue.RunID) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), b.db.Login(t, "oarlock_submit"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), read(t, "../examples/one-per-tenant/tenants.sql")); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), read(t, "testdata/schedules.sql"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || strings.Join(got, ", ") != "globex in America/New_York, hooli in Asia/Tokyo" {
		t.Errorf("there are schedules %q, %v", got, err)
	}
}

// site is a service that takes articles, and messages like Slack. A posted article is there at the third request for it.
func site(t *testing.T) string {
	t.Helper()
	asked := make(chan int, 1)
	asked <- 0
	var mux http.ServeMux
	mux.HandleFunc("POST /articles", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") == "" || !strings.HasPrefix(r.Header.Get("X-Source"), "run ") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "{}")
	})
	mux.HandleFunc("POST /services/T0/B0", func(w http.ResponseWriter, r *http.Request) {
		var message struct{ Text string }
		if err := json.NewDecoder(r.Body).Decode(&message); err != nil || !strings.HasSuffix(message.Text, ` of notify failed: ["load"]`) {
			http.Error(w, "invalid_payload", http.StatusBadRequest)
		}
	})
	mux.HandleFunc("GET /articles/latest", func(w http.ResponseWriter, _ *http.Request) {
		n := <-asked + 1
		asked <- n
		if n < 3 {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	server := httptest.NewServer(&mux)
	t.Cleanup(server.Close)
	return server.URL
}

// listed is a row of the list of examples: what users type, in the order shown.
type listed struct {
	commands [][]string
	fails    bool // on purpose
}

var shownCommand = regexp.MustCompile("`oarlock ([^`]+)`")

func listOf(t *testing.T) (rows []listed) {
	t.Helper()
	for line := range strings.Lines(read(t, "../examples/README.md")) {
		first, _, _ := strings.Cut(line, "](")
		if !strings.HasPrefix(line, "| [") {
			continue
		}
		cells := strings.Split(line, " | ")
		row := listed{fails: strings.Contains(line, "fails on purpose")}
		for _, m := range shownCommand.FindAllStringSubmatch(cells[len(cells)-1], -1) {
			row.commands = append(row.commands, strings.Fields(m[1]))
		}
		if len(row.commands) == 0 {
			t.Errorf("%s has no command", first)
			continue
		}
		rows = append(rows, row)
	}
	return rows
}

// Each command in the list of examples is typed, in the order of its lines, and must work.
func TestExamples_CommandsOfTheListRun(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3, which stands in for a service")
	}
	b := setup(t)
	home := t.TempDir()
	command := func(words []string) *exec.Cmd {
		cmd := exec.Command(program, words...)
		cmd.Dir = ".."
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_STATE_HOME=" + home, "DATABASE_URL=" + b.db.URL}
		return cmd
	}
	rows := listOf(t)
	for _, row := range rows {
		var out strings.Builder
		cmd := command(row.commands[0])
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for _, beside := range row.commands[1:] {
			until(t, strings.Join(beside, " "), func() bool { return command(beside).Run() == nil })
		}
		if err := cmd.Wait(); err != nil != row.fails {
			t.Errorf("oarlock %v: %v\n%s", row.commands[0], err, out.String())
		}
	}
	if !strings.Contains(strings.Join(strings.Fields(read(t, readme)), " "), fmt.Sprintf("[%d examples]", len(rows))) {
		t.Errorf("the README does not say that there are %d examples", len(rows))
	}
}

// The list of examples says what every example teaches.
func TestExamples_AreListed(t *testing.T) {
	t.Parallel()
	list := read(t, "../examples/README.md")
	for name := range examplesByFile {
		if !strings.Contains(list, "("+name+".yaml)") {
			t.Errorf("examples/README.md does not list %s.yaml", name)
		}
		if _, err := os.Stat("../examples/" + name + ".yaml"); err != nil {
			t.Error(err)
		}
	}
}
