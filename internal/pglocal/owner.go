package pglocal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// owner is the user under which initdb, postgres and the supervisor run.
type owner struct {
	uid, gid int
	name     string
	drop     bool // we are root and change to the owner
}

// serverOwner returns the user under which the server runs: the user of this process, or if that is root, the user `postgres`, or
// else the unprivileged user of the system. It fails for root if neither exists.
func serverOwner() (owner, error) {
	if uid := os.Geteuid(); uid != 0 {
		return owner{uid: uid, gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		return owner{uid, gid, name, true}, errors.Join(err1, err2)
	}
	return owner{}, errors.New("PostgreSQL refuses to run as root, and this machine has no user `postgres` and no user `nobody`")
}

// attr returns attributes that start a child as the owner, and in a session of its own, so that Ctrl-C in the terminal does not
// reach it.
func (o owner) attr() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if o.drop {
		a.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	}
	return a
}

// give makes the owner the owner of a path. It does nothing unless this process is root and runs the server as another user.
func (o owner) give(path string) error {
	if !o.drop {
		return nil
	}
	return os.Lchown(path, o.uid, o.gid)
}

// canEnter reports whether the owner may enter dir and its parents. It asks the kernel instead of reading mode bits. It
// returns true without asking if the server runs as the user of this process.
func (o owner) canEnter(dir string) bool {
	if !o.drop {
		return true
	}
	cmd := exec.Command("/bin/sh", "-c", ":")
	cmd.Dir, cmd.SysProcAttr = dir, o.attr()
	return cmd.Run() == nil
}

func (o owner) mustEnter(dir string) error {
	if o.canEnter(dir) {
		return nil
	}
	return &Error{
		Kind: ErrUnreachable,
		Msg:  fmt.Sprintf("you are root, so PostgreSQL runs as user %s, and this user cannot enter %s", o.name, dir),
		ToDo: "choose a folder that all users can enter, for example with XDG_STATE_HOME=/var/lib",
	}
}

// environment returns the whole environment of initdb and postgres. It has no PG* variables, so that settings for the user's
// own server do not leak in, and no secrets. Messages are in English, so that diagnose can read them.
func environment() []string {
	env := []string{"LC_ALL=C"}
	for _, key := range []string{"PATH", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+v)
		}
	}
	return env
}
