package baseline

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// TruePath is a command that does nothing.
const TruePath = "/bin/true"

// Command runs TruePath with what every executor needs, and without any supervision: a work folder below dir, the small files of
// inputs and outputs below memory, two pipes, a process group. It waits for the end of the command, and removes the files.
func Command(dir, memory string) error {
	work, err := os.MkdirTemp(dir, "work-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	files, err := os.MkdirTemp(memory, "files-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(files)
	for _, name := range []string{"output", "upstream.json"} {
		if err := os.WriteFile(filepath.Join(files, name), []byte("{}"), 0o600); err != nil {
			return err
		}
	}
	if err := Spawn(work); err != nil {
		return err
	}
	_, err = os.ReadFile(filepath.Join(files, "output"))
	return err
}

// Spawn starts TruePath in the folder dir, or in the current folder if dir is "", in a process group of its own and with two pipes.
// It waits for the end, and returns an error if the command failed.
func Spawn(dir string) error {
	cmd := exec.Command(TruePath)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	var out, errs bytes.Buffer // not files, so that os/exec makes pipes
	cmd.Stdout, cmd.Stderr = &out, &errs
	return cmd.Run()
}
