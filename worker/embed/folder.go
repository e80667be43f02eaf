package embed

import (
	"fmt"
	"os"
	"syscall"
)

// OwnFolder makes a folder that only this user can access, with its parents. If the folder exists, it returns an error unless this
// user owns it and no other user may write to it: in a place that all users may write to, the folder might belong to another user.
func OwnFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("folder of a worker: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("folder of a worker: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || ok && int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("folder %s of a worker: it belongs to another user, or other users may write to it", path)
	}
	return nil
}
