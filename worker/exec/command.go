package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/worker"
)

// maxTextArg is the longest argument of the kernel, with its final NUL. A longer text of `run:` is passed as a file.
const maxTextArg = 128 << 10

const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// StandardShell runs `run:` where neither step, DAG nor worker names a shell.
var StandardShell = []string{"/bin/sh", "-eu"}

// command is the program to start, with its arguments and working folder.
type command struct {
	path string
	args []string
	dir  string
}

// command returns the program, arguments and working folder of a task. searched is the PATH in which it looks for the program. It
// makes the attempt's folder in f if the step names no folder, and writes a script to a file of f if it is too long for an
// argument. It returns an error if the program or the folder cannot be used, an argument has a NUL byte, or this worker's lists
// forbid the program.
func (x *Executor) command(t *worker.Task, f *folder, searched string) (command, error) {
	var c command
	var err error
	if c.args, err = x.argv(t, f); err != nil {
		return c, err
	}
	for i, arg := range c.args {
		if strings.ContainsRune(arg, 0) {
			return c, configError{fmt.Errorf("argument %d holds a NUL byte, which no argument can hold: pass the value through stdin", i)}
		}
	}
	if c.dir, err = workingDir(t, f); err != nil {
		return c, err
	}
	if c.path, err = findProgram(c.args[0], c.dir, searched); err != nil {
		return c, err
	}
	if err := x.programs.check(c.path); err != nil {
		return c, spawnError{err}
	}
	return c, nil
}

// argv returns the program, as first element, and the arguments of the body: a shell and its script for run, or the command with
// its args. It returns an error if the body has neither, or if an argument of a command is longer than maxValueBytes.
func (x *Executor) argv(t *worker.Task, f *folder) ([]string, error) {
	switch {
	case t.Body.Run != "":
		return x.shellCommand(t, f)
	case t.Body.Command == "":
		return nil, configError{errors.New("the body is neither run nor command")}
	}
	argv := []string{t.Body.Command}
	if t.Resolved != nil {
		argv = append(argv, t.Resolved.Args...)
	}
	for i, arg := range argv {
		if len(arg) > maxValueBytes {
			return nil, configError{fmt.Errorf("argument %d has %d bytes, at most %d: pass the value through stdin or $OARLOCK_UPSTREAM", i, len(arg), maxValueBytes)}
		}
	}
	return argv, nil
}

// shellCommand returns a shell with its arguments, the last of which is the text of `run:` unchanged. A text of maxTextArg bytes or
// more is written to a file of f, and the path of that file takes its place. The shell of the step (or its DAG) wins over the
// worker's, and the worker's over StandardShell.
func (x *Executor) shellCommand(t *worker.Task, f *folder) ([]string, error) {
	shell := StandardShell
	for _, s := range [][]string{x.config.Shell, t.Body.Shell} {
		if len(s) > 0 {
			shell = s
		}
	}
	program, flag := dagspec.ShellCommand(shell)
	argv := slices.Clone(program)
	if len(t.Body.Run) < maxTextArg {
		return append(argv, flag, t.Body.Run), nil
	}
	path, err := f.write("run", []byte(t.Body.Run))
	if err != nil {
		return nil, err
	}
	return append(argv, path), nil
}

// workingDir returns the working folder of the body: the folder that the step (or its DAG) names, else the attempt's own, which it
// makes. A relative name counts from the path of the attempt's own folder. It returns an error if the named folder is missing, is
// no folder, or must not be entered by the worker's user.
func workingDir(t *worker.Task, f *folder) (string, error) {
	dir := t.Body.WorkingDir
	if dir == "" {
		return f.dir()
	}
	hint := "make the folder on this worker, or select a worker that has the folder"
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(f.x.work.path, f.name, dir)
		hint = "a relative folder is inside the attempt's own empty folder; the folder of the DAG file is $OARLOCK_SOURCE_DIR"
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", dagFault(err, fmt.Errorf("working_dir %s: %w: %s", dir, errnoOf(err), hint))
	case !info.IsDir():
		return "", spawnError{fmt.Errorf("working_dir %s is not a folder", dir)}
	}
	if err := unix.Access(dir, unix.X_OK); err != nil {
		return "", spawnError{fmt.Errorf("working_dir %s: %w: the worker's user must be allowed to enter it", dir, err)}
	}
	return dir, nil
}

// findProgram returns the file of a command, found as a shell does. A name with a slash is a path, relative to dir; any other is
// looked up in the folders of searched, the PATH of the body. Relative folders there do not count. If no folder has a file of that
// name that can be executed, the error says so, or why the first file of that name cannot be executed.
func findProgram(name, dir, searched string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	var refused error
	for _, folder := range filepath.SplitList(searched) {
		if !filepath.IsAbs(folder) {
			continue // an empty or relative entry would run programs that were put into the working folder
		}
		file := filepath.Join(folder, name)
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && refused == nil {
			refused = err
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", spawnError{fmt.Errorf("command %s not found on this worker: install the command, write its whole path, or select a worker that has the command; PATH is %s", name, searched)}
}

// executable returns an error if a file cannot be started: it is missing, a folder, or not executable for the worker's user. It
// does not look at the content, so the kernel may still refuse to start a file for which it returns nil.
func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return spawnError{fmt.Errorf("command %s not found on this worker: %w: install the command, or select a worker that has the command", file, fs.ErrNotExist)}
	case err != nil:
		return dagFault(err, fmt.Errorf("command %s: %w", file, errnoOf(err)))
	case info.IsDir():
		return spawnError{fmt.Errorf("command %s is a folder: name a program", file)}
	}
	if err := unix.Access(file, unix.X_OK); err != nil {
		return spawnError{fmt.Errorf("command %s is not executable: type chmod +x for the file, or start its interpreter with the file as argument", file)}
	}
	return nil
}

// errnoOf returns the errno of a path error, because the message around it has the path already. It returns any other error
// unchanged.
func errnoOf(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}

// programs is the worker's lists of allowed and denied programs.
type programs struct {
	allow, deny []string
}

func parsePrograms(allow, deny []string) (programs, error) {
	for _, glob := range append(append([]string{}, allow...), deny...) {
		if err := CheckProgramGlob(glob); err != nil {
			return programs{}, fmt.Errorf("commands: %q %w", glob, err)
		}
	}
	return programs{resolveAll(allow), resolveAll(deny)}, nil
}

// CheckProgramGlob returns an error if a glob of an allow or deny list is malformed, or is no absolute path. The caller must put
// the glob before the message, which begins with "must be".
func CheckProgramGlob(glob string) error {
	if _, err := path.Match(glob, ""); err != nil || !filepath.IsAbs(glob) {
		return errors.New("must be a pattern of an absolute path, such as /usr/bin/*")
	}
	return nil
}

// resolveAll returns globs, followed by the same paths without symbolic links, because programs are checked by the file that they
// lead to: on most systems /bin/sh, for one, is a link. In a glob that is no existing path, it resolves only the folder.
func resolveAll(globs []string) []string {
	all := append([]string{}, globs...)
	for _, glob := range globs {
		if target, err := filepath.EvalSymlinks(glob); err == nil && target != glob {
			all = append(all, target)
		} else if folder, err := filepath.EvalSymlinks(filepath.Dir(glob)); err == nil {
			all = append(all, filepath.Join(folder, filepath.Base(glob)))
		}
	}
	return all
}

// check returns an error if the lists forbid to start a file; nil if they allow it, or both are empty. It checks the file that the
// path leads to. So a link into an allowed folder does not allow its target, and a link outside a denied folder does not hide it.
// The list of denied programs wins, and is compared with the path of the link, too. A path that cannot be resolved is an error.
func (p programs) check(file string) error {
	if len(p.allow)+len(p.deny) == 0 {
		return nil
	}
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return fmt.Errorf("command %s: %w", file, errnoOf(err))
	}
	switch {
	case matches(p.deny, target) || matches(p.deny, filepath.Clean(file)):
		return fmt.Errorf("command %s is denied on this worker: its list of denied commands names it", target)
	case len(p.allow) > 0 && !matches(p.allow, target):
		return fmt.Errorf("command %s is not allowed on this worker: its list of allowed commands does not name it", target)
	}
	return nil
}

func matches(globs []string, file string) bool {
	for _, glob := range globs {
		if ok, _ := path.Match(glob, file); ok {
			return true
		}
	}
	return false
}
