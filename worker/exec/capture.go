package exec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/worker"
)

// streamNames are the names of the streams of a body, as outputs name them, in the order of body.streams.
var streamNames = [2]string{"stdout", "stderr"}

// capture keeps the beginning of a stream for the outputs that come from it, and passes everything on to the log.
type capture struct {
	to   io.Writer // nil: nothing is passed on
	keep int       // bytes
	text []byte
}

// tail keeps the end of a stream for error.stderr_tail, and passes everything on.
type tail struct {
	to   io.Writer // nil: nothing is passed on
	text []byte
	cut  bool // the stream had more than the text
}

// tailBytes limits error.stderr_tail.
const tailBytes = 4 << 10

// Write implements io.Writer for the goroutine that copies the stream. It moves bytes only once the buffer has twice what is kept.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if n := len(t.text) - tailBytes; n > tailBytes {
		t.text, t.cut = append(t.text[:0], t.text[n:]...), true
	}
	return passOn(t.to, p)
}

// passOn writes p to w, if there is a w.
func passOn(w io.Writer, p []byte) (int, error) {
	if w == nil {
		return len(p), nil
	}
	return w.Write(p)
}

// stderrTail returns the last lines that the body wrote to its stderr, tailBytes at most, without white space at their end, or the
// end of one longer line. Secrets are masked, and bytes that Postgres cannot store are question marks. It returns "" unless the step
// refers to it.
func (a *attempt) stderrTail(b *body) string {
	if b.tail == nil {
		return ""
	}
	text, cut := string(b.tail.text), b.tail.cut
	if n := len(text) - tailBytes; n > 0 {
		text, cut = text[n:], true
	}
	masked := a.task.Masked
	if cut {
		masked = a.task.MaskedEnd
	}
	text = strings.TrimRight(masked(text), " \t\r\n")
	if _, lines, more := strings.Cut(text, "\n"); cut && more {
		text = lines
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
}

// captureOf returns a capture for a stream, or nil if none of the outputs comes from it. The capture keeps what the largest of these
// outputs may have, a newline, and one more byte, which shows that the stream is too long.
func captureOf(stream string, declared []dagspec.Output) *capture {
	keep := 0
	for _, o := range declared {
		if o.From == stream {
			keep = max(keep, maxBytes(o)+2)
		}
	}
	if keep == 0 {
		return nil
	}
	return &capture{keep: keep}
}

// Write implements io.Writer for the goroutine that copies the stream.
func (c *capture) Write(p []byte) (int, error) {
	c.text = append(c.text, p[:min(len(p), c.keep-len(c.text))]...)
	return passOn(c.to, p)
}

// source returns the text of an output that comes from a stream or a file of a body, without the white space that its type ignores.
// The secrets of the task are masked in it, as in the log. It returns false if there is no such file, or if it is as it was before
// the body began: then another step or attempt has written it.
func (a *attempt) source(b *body, o dagspec.Output) (text string, written bool, err error) {
	if i := slices.Index(streamNames[:], o.From); i >= 0 {
		text = string(b.captures[i].text)
	} else if text, err = readBelow(a.cmd.dir, o.File(), maxBytes(o)+2, b.before[o.File()]); errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	} else if err != nil {
		return "", false, fmt.Errorf("%s: %w: write a regular file below the working directory", o.From, err)
	}
	if len(text) > maxBytes(o)+1 {
		return "", false, fmt.Errorf("%s has more than %d bytes: %s", o.From, maxBytes(o), smaller(o))
	}
	text = a.task.Masked(text)
	if o.Type != "string" || o.NeededBy() != "" {
		return strings.TrimSpace(text), true, nil
	}
	return strings.TrimSuffix(text, "\n"), true, nil
}

// smaller says what to do about a text that is too large for an output.
func smaller(o dagspec.Output) string {
	if o.NeededBy() != "" {
		return "write the text to a file elsewhere, and output its address, or declare JSON as outputs: [{name: " + o.Name + ", from: " + o.From + ", type: json}], for up to 1 MiB"
	}
	return "put large data elsewhere, and output the address of the data"
}

// fileState tells a file from another one and from itself before a write. The zero value is no file.
type fileState struct {
	device, inode  uint64
	changed        syscall.Timespec // a write sets it even if the time of the content is set back afterwards
	size, modified int64
}

func stateOf(info fs.FileInfo) fileState {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileState{}
	}
	return fileState{uint64(st.Dev), st.Ino, st.Ctim, st.Size, info.ModTime().UnixNano()} //nolint:unconvert // Dev has other types elsewhere
}

// filesOfOutputs returns the files that are there already where outputs come from, by their paths. A file that cannot be looked at
// is left out: what keeps the look from it shows again when the output is read.
func (a *attempt) filesOfOutputs() map[string]fileState {
	fromFile := func(o dagspec.Output) bool { return o.File() != "" }
	if !slices.ContainsFunc(a.task.Body.Outputs, fromFile) {
		return nil
	}
	root, err := os.OpenRoot(a.cmd.dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	found := map[string]fileState{}
	for _, o := range a.task.Body.Outputs {
		if !fromFile(o) {
			continue
		}
		if info, err := root.Stat(o.File()); err == nil {
			found[o.File()] = stateOf(info)
		}
	}
	return found
}

// readBelow returns the beginning of the file at a path below a folder, up to most bytes. It returns fs.ErrNotExist if there is no
// file, or if it is still the file before. It follows no link that leads out of the folder, and it neither opens nor waits for
// anything but a regular file.
func readBelow(folder, path string, most int, before fileState) (string, error) {
	root, err := patiently(func() (*os.Root, error) { return os.OpenRoot(folder) })
	if err != nil {
		return "", plainError(err)
	}
	defer root.Close()
	regular := func(info fs.FileInfo, err error) error {
		if err == nil && !info.Mode().IsRegular() {
			err = errNoFile
		}
		return err
	}
	if err := regular(root.Stat(path)); err != nil {
		return "", plainError(err)
	}
	f, err := patiently(func() (*os.File, error) { return root.OpenFile(path, noWaiting, 0) })
	if err != nil {
		return "", plainError(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err := regular(info, err); err != nil { // a process that the body left behind may have replaced it
		return "", plainError(err)
	}
	if before != (fileState{}) && stateOf(info) == before {
		return "", fs.ErrNotExist
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(most)))
	return string(text), plainError(err)
}

var errNoFile = errors.New("not a regular file")

// plainError returns an error of a file without its path, which the caller names.
func plainError(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok && !worker.Lacks(err) {
		return of.Err
	}
	return err
}
