package exec

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// forever is longer than any test. It is finite, so that a forgotten program ends one day.
const forever = 10 * time.Minute

// nasty is a collection of badly behaved programs.
func nasty(name string) {
	switch name {
	case "sleep":
		fmt.Printf("pid=%d\n", os.Getpid())
		rest()
	case "ignore":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		fmt.Printf("ready=%d\n", os.Getpid())
		rest()
	case "daemon": // a double fork with setsid and closed stdio; the first process ends at once
		spawn("daemon-middle", true)
	case "daemon-middle":
		pid := spawn("ignore", true)
		report("daemon", pid)
	case "daemon-attached": // as daemon, but it holds the pipes
		fmt.Printf("daemon=%d\n", spawn("ignore-quiet", false))
	case "ignore-quiet":
		signal.Ignore(syscall.SIGTERM)
		rest()
	case "daemon-wait": // starts a daemon and stays
		spawn("daemon-middle", true)
		rest()
	case "bomb": // forks until there are n, each in a session of its own
		bomb()
	case "holder": // writes without end into the pipe that it inherited
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 4096)); err != nil {
				return
			}
		}
	case "orphan-holder":
		fmt.Printf("daemon=%d\n", spawn("holder", false))
	case "close-stdio":
		for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
			f.Close()
		}
		report("closed", os.Getpid())
		wait()
	case "flood":
		flood()
	case "zombies":
		storm()
		rest()
	case "zombies-deaf":
		signal.Ignore(syscall.SIGTERM)
		storm()
		rest()
	case "zombies-end":
		storm()
	case "stopped": // stops itself: hears SIGTERM only once it is continued
		fmt.Printf("ready=%d\n", os.Getpid())
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		rest()
	}
}

func rest() { <-time.NewTimer(forever).C }

// wait returns when the working folder has a file named end.
func wait() {
	over := time.NewTimer(forever)
	for tick := time.NewTicker(time.Millisecond); ; {
		if _, err := os.Stat("end"); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-over.C:
			return
		}
	}
}

// report writes a pid to a file for the test, because stdout may be closed.
func report(name string, pid int) {
	path := os.Getenv("REPORT")
	if path == "" {
		fmt.Printf("%s=%d\n", name, pid)
		return
	}
	if err := os.WriteFile(path+".tmp", fmt.Appendf(nil, "%s=%d\n", name, pid), 0o600); err == nil {
		_ = os.Rename(path+".tmp", path)
	}
}

// spawn starts another of these in a session of its own.
func spawn(name string, detached bool) int {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), nastyVariable+"="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if !detached {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd.Process.Pid
}

func bomb() {
	left, _ := strconv.Atoi(os.Getenv("LEFT"))
	signal.Ignore(syscall.SIGTERM)
	for i := range 2 {
		if left > 0 {
			os.Setenv("LEFT", strconv.Itoa(left-1))
			spawn("bomb", true)
		}
		_ = i
	}
	rest()
}

// stormOf is how many children a storm has.
const stormOf = 300

// storm starts children that end, and waits for none. It prints their number once all are zombies.
func storm() {
	children := make([]int, stormOf)
	for i := range children {
		cmd := exec.Command("/bin/true")
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		children[i] = cmd.Process.Pid
	}
	for _, pid := range children {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			panic(err)
		}
	}
	fmt.Printf("zombies=%d\n", len(children))
}

// flood writes n bytes without a newline, NUL bytes among them.
func flood() {
	total, _ := strconv.Atoi(os.Getenv("BYTES"))
	block := make([]byte, 10_000)
	for i := range block {
		block[i] = byte(i % 7)
		if block[i] == '\n' {
			block[i] = 0
		}
	}
	for total > 0 {
		n, err := os.Stdout.Write(block[:min(total, len(block))])
		if err != nil {
			os.Exit(3)
		}
		total -= n
	}
}
