//go:build linux

package supervise

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/internal/offspring"
	"github.com/oarlock-dev/oarlock/internal/procfs"
)

// The test binary plays all parts: it is started again as a guard, which starts it again as a driver process.
const (
	roleEnv = "GUARD_TEST_ROLE"
	playEnv = "GUARD_TEST_PLAY"
	markEnv = "GUARD_TEST_MARK" // on everything that belongs to one test
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "guard":
		os.Exit(playGuard())
	case "driver":
		os.Exit(playDriver())
	case "headless":
		playHeadless()
	}
	goleak.VerifyTestMain(m)
}

// play is the part that a process of a test plays.
type play struct {
	Log, StateDir, Name string
	Limits              Limits
	Final               []int
	Ungrouped           bool
	Ghost               string // while this file exists, a process survives SIGKILL
	Script              []string
}

func (p play) says(word string) bool { return slices.Contains(p.Script, word) }

// value of a word like deadline=2s.
func (p play) value(word string) (string, bool) {
	for _, w := range p.Script {
		if v, ok := strings.CutPrefix(w, word+"="); ok {
			return v, true
		}
	}
	return "", false
}

func readPlay() play {
	var p play
	if err := json.Unmarshal([]byte(os.Getenv(playEnv)), &p); err != nil {
		panic(err)
	}
	return p
}

// entry is a line of a test's log.
type entry struct {
	Who, What   string
	PID         int
	Code        int
	Workers     []string
	Left        []string
	Err         string
	Containment string
	At          time.Duration
	Deadline    time.Duration
	FDs, Loops  int
	Replaced    map[Why]int64
	Kept        map[string]int64
	Last        bool
}

func (p play) log(e entry) {
	e.At = boottime.Now()
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	f, err := os.OpenFile(p.Log, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

func readLog(path string) []entry {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	var all []entry
	for s := bufio.NewScanner(f); s.Scan(); {
		var e entry
		if json.Unmarshal(s.Bytes(), &e) == nil {
			all = append(all, e)
		}
	}
	return all
}

func playGuard() int {
	p := readPlay()
	cfg := Config{
		Env:      append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, roleEnv+"=") }), roleEnv+"=driver"),
		StateDir: p.StateDir, Name: p.Name, Limits: p.Limits, Final: p.Final, ungrouped: p.Ungrouped,
		Say: func(e Event) {
			told := entry{Who: "guard", What: string(e.Kind), PID: e.PID, Code: e.Code, Workers: e.Workers, Left: e.Left, Last: e.Last}
			if e.Err != nil {
				told.Err = e.Err.Error()
			}
			told.FDs, told.Loops = openFiles(), runtime.NumGoroutine()
			p.log(told)
		},
	}
	if p.Ghost != "" {
		cfg.processes = func() ([]process, error) { return withGhost(p.Ghost) }
	}
	code, err := Run(context.Background(), cfg)
	if err != nil {
		p.log(entry{Who: "guard", What: "failed", Err: err.Error()})
		return 99
	}
	return code
}

func openFiles() int {
	files, _ := procfs.Files(os.Getpid())
	return len(files)
}

// withGhost adds a child that no signal reaches to the list.
func withGhost(file string) ([]process, error) {
	all, err := listProcesses()
	if _, gone := os.Stat(file); gone == nil {
		all = append(all, process{identity: identity{1 << 30, 1}, parent: os.Getpid(), state: 'D', live: true, name: "ghost"})
	}
	return all, err
}

// playHeadless is a process with an ended first thread: /proc shows it as a zombie, with nothing to read.
func playHeadless() {
	runtime.LockOSThread()
	go func() {
		for {
			unix.Pause()
		}
	}()
	unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
}

func playDriver() int {
	p := readPlay()
	if p.says("never-attach") {
		p.log(entry{Who: "driver", What: "silent", PID: os.Getpid()})
		unix.Pause()
	}
	link, guarded := Attach()
	if !guarded {
		p.log(entry{Who: "driver", What: "unguarded", PID: os.Getpid()})
		return 98
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	p.log(entry{
		Who: "driver", What: "attached", PID: os.Getpid(), Workers: link.Replaces(), Containment: link.Containment(),
		Replaced: link.Replaced(), Kept: link.Kept(),
	})
	p.must(link.Adopt())
	p.script(link)
	return p.listen(link, signals)
}

func (p play) script(link *Link) {
	id := fmt.Sprintf("w-%s-%d", os.Getenv(markEnv), os.Getpid())
	if p.says("keep") { // a later request is answered, so this one has arrived by then
		p.must(link.Keep(map[string]int64{"lost": link.Kept()["lost"] + 1}))
	}
	p.must(link.Use(id))
	if p.says("forget") {
		p.must(link.Forget(link.Replaces()...))
	}
	p.must(link.Extend(boottime.Now() + 5*time.Minute))
	if p.says("corpus") {
		startCorpus(p, id)
	}
	if shell, ok := p.value("fork"); ok && link.Replaces() == nil { // the first driver process only
		script, _ := p.value("script")
		cmd := exec.Command(shell, "-c", script, p.Log)
		cmd.Env = append(os.Environ(), Environ(id))
		p.start(cmd)
	}
	if p.says("group") {
		p.must(startInGroup(link))
	}
	if v, ok := p.value("exit"); ok {
		var code int
		fmt.Sscan(v, &code)
		os.Exit(code)
	}
	p.log(entry{Who: "driver", What: "ready", PID: os.Getpid(), Workers: []string{id}})
	if p.says("babble") {
		_, err := link.out.WriteString("what?\n")
		p.must(err)
	}
	if p.says("extend") {
		for range 40 {
			<-time.NewTimer(20 * time.Millisecond).C
			p.must(link.Extend(boottime.Now() + 400*time.Millisecond))
		}
		p.must(link.Extend(0))
		p.log(entry{Who: "driver", What: "extended", PID: os.Getpid()})
	}
}

// startInGroup starts a process in a cgroup of its own, as attempts are, and waits for its end.
func startInGroup(link *Link) error {
	path := cgroup(link.Cgroup()).file(fmt.Sprintf("attempt-%d", os.Getpid()))
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	wait, err := started(cmd)
	if err != nil {
		return err
	}
	return wait()
}

// started starts a process, and returns how to wait for its end.
func started(cmd *exec.Cmd) (wait func() error, err error) {
	pid, err := offspring.Start(func() (int, error) {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	})
	return func() error {
		defer offspring.Reaped(pid)
		return cmd.Wait()
	}, err
}

func (p play) start(cmd *exec.Cmd) {
	wait, err := started(cmd)
	p.must(err)
	go func() { _ = wait() }()
}

func (p play) must(err error) {
	if err != nil {
		p.log(entry{Who: "driver", What: "failed", Err: err.Error()})
		os.Exit(97)
	}
}

func (p play) setDeadline(link *Link, in string) (deadline time.Duration) {
	d, err := time.ParseDuration(in)
	p.must(err)
	deadline = boottime.Now() + d
	p.must(link.Extend(deadline))
	p.log(entry{Who: "driver", What: "armed", PID: os.Getpid(), Deadline: deadline})
	return deadline
}

// renew extends the deadline again, though not before it has passed, and waits for an answer of the guard.
func (p play) renew(link *Link, passed time.Duration) {
	for boottime.Now() < passed {
		<-time.NewTimer(passed - boottime.Now()).C
	}
	p.must(link.Extend(boottime.Now() + 5*time.Minute))
	p.log(entry{Who: "driver", What: "renewed", PID: os.Getpid()})
	p.must(link.Use("w-renewed"))
	p.log(entry{Who: "driver", What: "answered", PID: os.Getpid()})
}

// listen exits with 10 + the number of signals heard when it was told to, and sweeps when the guard is gone.
func (p play) listen(link *Link, signals chan os.Signal) int {
	heard := 0
	for {
		select {
		case sig := <-signals:
			if v, ok := p.value("deadline"); ok {
				deadline := p.setDeadline(link, v)
				if p.says("renew") {
					p.renew(link, deadline)
				}
				continue
			}
			heard++
			p.log(entry{Who: "driver", What: sig.String(), PID: os.Getpid()})
			if v, ok := p.value("signals"); !ok || v == fmt.Sprint(heard) {
				return 10 + heard
			}
		case <-link.Gone():
			p.log(entry{Who: "driver", What: "gone", PID: os.Getpid()})
			if p.says("linger") {
				unix.Pause()
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			p.must(link.Sweep(ctx))
			p.log(entry{Who: "driver", What: "swept", PID: os.Getpid()})
			link.Close()
			return 0
		}
	}
}

// corpusSize is the number of processes of the corpus: every way to get away from a parent that needs no service of the
// machine.
const corpusSize, corpusSleeps = 13, 10

func startCorpus(p play, id string) {
	mark := os.Getenv(markEnv)
	start := func(attr *syscall.SysProcAttr, path string, argv ...string) {
		cmd := &exec.Cmd{Path: path, Args: argv, SysProcAttr: attr, Env: append(os.Environ(), Environ(id))}
		p.start(cmd)
	}
	sh := func(script string) { start(nil, "/bin/sh", "sh", "-c", script, mark) }
	start(nil, "/bin/sleep", "sleep", "600")
	start(&syscall.SysProcAttr{Setsid: true}, "/bin/sleep", "sleep", "600")
	start(&syscall.SysProcAttr{Setpgid: true}, "/bin/sleep", "[kworker/0:1]", "600")
	sh(`(sleep 600 &) ; exit`)
	sh(`trap "" TERM HUP INT; while :; do sleep 600; done`)
	sh(`exec <&- >&- 2>&-; exec sleep 600`)
	sh(`setsid sh -c "sleep 600 & exec sleep 600" & exit`)
	sh(`(setsid setsid sh -c "trap '' TERM; (sleep 600 &); exec sleep 600" &) ; exit`)
	p.must(os.Symlink("/bin/sleep", p.Log+mark+id))
	sh(`(exec env -i ` + p.Log + mark + id + ` 600 &) ; exit`)
	cmd := exec.Command(procfs.Self("exe"))
	cmd.Env = append(os.Environ(), Environ(id), roleEnv+"=headless")
	p.start(cmd)
}
