package pgcluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// SmallDisk mounts a file system of its own, for StartIn and Fill. It needs root, and skips the test otherwise.
func SmallDisk(tb testing.TB, size int64) (folder string) {
	tb.Helper()
	folder, err := os.MkdirTemp("/tmp", "oarlock-disk-")
	if err != nil {
		tb.Fatal(err)
	}
	err = unix.Mount("oarlock", folder, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0755", size))
	if err != nil {
		_ = os.Remove(folder)
		tb.Skipf("only root can make a small disk: %v", err)
	}
	tb.Cleanup(func() {
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
			tb.Error(err)
		}
		_ = os.Remove(folder)
	})
	return folder
}

// Fill leaves no room in a folder, not even for a page, until remove is called.
func Fill(tb testing.TB, folder string) (remove func()) {
	tb.Helper()
	path := filepath.Join(folder, "ballast")
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4 << 10} {
		block := make([]byte, size)
		for err = nil; err == nil; {
			_, err = f.Write(block)
		}
	}
	return func() { _ = os.Remove(path) }
}
