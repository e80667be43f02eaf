package exec

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/offspring"
	"github.com/oarlock-dev/oarlock/worker"
)

// trivialPath is the program of a trial. If it is missing, the kernel says so only after it made a process, which is what the
// trial is about.
const trivialPath = "/bin/sh"

// trialBytes is how much a trial writes where bodies get folders and files. A host with less room counts as full.
const trialBytes = 64 << 10

// Try starts a body that does nothing, in the way in which all bodies start, and waits for its end. It returns an error only if
// this host lacks something that bodies need, and says what. Any other failure of the trial is no error.
func (x *Executor) Try(ctx context.Context) error {
	number := strconv.FormatInt(x.count.Add(1), 10)
	task := &worker.Task{Step: "trial", Body: &dagspec.Step{}, Now: make(chan struct{})}
	a := &attempt{x: x, task: task, owner: x.prefix + number, folder: x.folder(task, number)}
	defer a.close()
	err := a.prepareTrial(number)
	if err == nil {
		err = a.try(ctx)
	}
	if lacking, ok := errors.AsType[hostError](err); ok {
		return errors.New(worker.Unstarted(lacking.error, lacking.place).Reason)
	}
	return nil
}

// prepareTrial makes all that a body may need: files, folder, stdin, command, environment and cgroup. It also writes trialBytes to
// the folder and beside it, to see whether there is room. An error that is no hostError says nothing about this host.
func (a *attempt) prepareTrial(number string) error {
	env := environment{ownerVariable: a.owner}
	if err := a.files(env); err != nil {
		return err
	}
	room := bytes.Repeat([]byte{'.'}, trialBytes)
	if _, err := a.folder.write("trial", room); err != nil {
		return err
	}
	dir, err := a.folder.dir()
	if err != nil {
		return err
	}
	a.folder.shared = true // it serves no other body
	if err := writeFile(filepath.Join(dir, "trial"), room); err != nil {
		return hostFault(err, a.x.place(a.x.work))
	}
	if a.stdin, err = nameless(""); err != nil {
		return hostFault(err, "")
	}
	a.cmd, a.env = command{trivialPath, []string{trivialPath, "-c", ":"}, dir}, env.list(nil, nil)
	return a.group(number)
}

// try starts the body of a trial and waits for its end. It returns only errors of the start.
func (a *attempt) try(ctx context.Context) error {
	b, err := a.start()
	if err != nil {
		return err
	}
	a.folder.shared = true
	_ = b.supervise(ctx) // the trial is only about the start
	return nil
}

// startTrivial starts a process that does nothing, waits for its end, and returns nil if it could start. It also returns nil if
// trivialPath is missing, because then too the kernel could make a process.
func (x *Executor) startTrivial() error {
	var p *os.Process
	pid, err := offspring.Start(func() (pid int, err error) {
		p, err = os.StartProcess(trivialPath, []string{trivialPath, "-c", ":"}, &os.ProcAttr{Files: []*os.File{x.null, x.null, x.null}})
		if err != nil {
			return 0, err
		}
		return p.Pid, nil
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer offspring.Reaped(pid)
	_, err = p.Wait()
	return err
}
