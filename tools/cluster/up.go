package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

const (
	module = "github.com/oarlock-dev/oarlock/cmd/oarlock"
	ready  = "ready" // what a keeper says once all is up
)

// up makes the folder, starts a keeper in it, and waits until that says all is up, or why not.
func up(ctx context.Context, o options) error {
	if o.Networks && os.Getuid() != 0 {
		return errors.New("--networks needs root")
	}
	p := place{o.Dir}
	lock, err := p.occupy()
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := p.equip(ctx, o.Program); err != nil {
		return errors.Join(err, os.RemoveAll(p.dir))
	}
	if err := p.startKeeper(ctx, o, lock); err != nil {
		return err
	}
	fmt.Printf("%s\n\nfor this shell:  eval \"$(go run ./tools/cluster env%s)\"\nthe end of it:   go run ./tools/cluster down%s\n",
		fmt.Sprintf("a Postgres and %d workers are up, in %s", o.Workers, o.Dir), dirFlag(o), dirFlag(o))
	return nil
}

// dirFlag is what to type besides, for a cluster that is not in its usual folder.
func dirFlag(o options) string {
	usual, _, _ := read(nil)
	if usual.Dir == o.Dir {
		return ""
	}
	return " --dir " + o.Dir
}

// equip puts oarlock into the folder.
func (p place) equip(ctx context.Context, program string) error {
	if program != "" {
		info, err := os.Stat(program)
		if err != nil {
			return fmt.Errorf("find oarlock: %w", err)
		}
		if info.IsDir() {
			return fmt.Errorf("%s is a folder, not oarlock", program)
		}
		return os.Symlink(program, p.program())
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", p.program(), module)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build oarlock: %w\n%s", err, out)
	}
	return nil
}

// startKeeper hands the lock over to a keeper in a session of its own. Descriptor 3 is the lock, 4 where it reports.
func (p place) startKeeper(ctx context.Context, o options, lock *os.File) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	log, err := os.Create(p.path("keeper.log"))
	if err != nil {
		return fmt.Errorf("make the keeper's log: %w", err)
	}
	defer log.Close()
	hear, say, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer hear.Close()
	args := []string{keepVerb, "--dir", o.Dir, fmt.Sprint("--workers=", o.Workers), fmt.Sprint("--networks=", o.Networks)}
	for _, s := range o.Settings {
		args = append(args, "--set", s)
	}
	keeper := exec.Command(self, args...)
	keeper.Stdout, keeper.Stderr, keeper.Dir = log, log, p.dir
	keeper.ExtraFiles = []*os.File{lock, say}
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = keeper.Start()
	say.Close()
	if err != nil {
		return fmt.Errorf("start the keeper: %w", err)
	}
	return p.hear(ctx, keeper, hear)
}

// hear waits for the keeper's first word. Who gives up waiting ends it.
func (p place) hear(ctx context.Context, keeper *exec.Cmd, hear io.Reader) error {
	stop := context.AfterFunc(ctx, func() { _ = keeper.Process.Signal(syscall.SIGTERM) })
	defer stop()
	word, _ := bufio.NewReader(hear).ReadString(0)
	if word = strings.Trim(word, "\x00"); word == ready {
		return nil
	}
	if err := keeper.Wait(); err != nil && word == "" {
		word = err.Error()
	}
	return fmt.Errorf("the cluster did not come up: %s", word)
}
