package exec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/worker"
)

// openStdin opens the stdin of the body; nil if the step has none. The caller must close it. A file with a relative name is looked
// up in dir, the working folder. A text is passed as a memfd, so that no goroutine has to feed it to a body that reads slowly or
// not at all.
func openStdin(t *worker.Task, dir string) (*os.File, error) {
	switch r := t.Resolved; {
	case r == nil:
		return nil, nil
	case r.StdinFile != "":
		return openStdinFile(r.StdinFile, dir)
	case r.Stdin != nil:
		f, err := nameless(*r.Stdin)
		if err != nil {
			return nil, hostFault(fmt.Errorf("stdin: %w", err), "")
		}
		return f, nil
	}
	return nil, nil
}

func openStdinFile(path, dir string) (*os.File, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // without O_NONBLOCK, opening a FIFO would wait for its writer
	if err != nil {
		return nil, dagFault(err, fmt.Errorf("stdin file %s: %w: the file must be on the worker that runs the step", path, errnoOf(err)))
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() && info.Mode()&os.ModeCharDevice == 0 {
		f.Close()
		return nil, spawnError{fmt.Errorf("stdin file %s is not a file", path)}
	}
	if err := unix.SetNonblock(int(f.Fd()), false); err != nil {
		f.Close()
		return nil, spawnError{fmt.Errorf("stdin file %s: %w", path, err)}
	}
	return f, nil
}

func nameless(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a nameless file: %w", err)
	}
	f := os.NewFile(uintptr(fd), "stdin")
	if _, err = io.WriteString(f, text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
