package integration

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/golden"
	"github.com/oarlock-dev/oarlock/integration/kit/screen"
)

// Parts of the output that differ from one run to the next.
var (
	shownTime = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(Z|[-+]\d\d:\d\d)`)
	shownWait = regexp.MustCompile(` after \S+ in the queue`)
	shownSpan = regexp.MustCompile(`\b(\d+m)?\d+(\.\d+)?(ms|s)\b *`)
)

func timeless(text string) string {
	return shownSpan.ReplaceAllString(shownWait.ReplaceAllString(shownTime.ReplaceAllString(text, "TIME"), ""), "SPAN ")
}

// Columns and rows of the terminal in the pictures.
const pictureColumns, pictureRows = 84, 24

// holdPicture runs a command on a terminal, expects a live tree there, and compares its end with the picture at path. It
// makes the whole picture anew only if the end differs, since times always do.
func holdPicture(t *testing.T, path string, command *exec.Cmd, typed string) {
	t.Helper()
	r, err := screen.Start(command, pictureColumns, pictureRows, typed+"\r\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(); err != nil {
		t.Error(err)
	}
	live := 0
	for _, f := range r.Frames {
		lines := strings.Split(f.String(), "\n")
		if strings.Contains(f.String(), " running ") {
			live++
		}
		if lines[0] != typed || strings.Count(f.String(), "\nrun ") > 1 {
			t.Errorf("a frame that is not drawn over the one before:\n%s", f)
		}
	}
	if live == 0 {
		t.Errorf("nothing was seen to run in %d frames", len(r.Frames))
	}
	picture := screen.SVG(typed, film(r.Frames)...)
	if stored, err := os.ReadFile(path); err == nil {
		shown, err := screen.Text(string(stored))
		if err != nil {
			t.Fatal(err)
		}
		if timeless(shown) == timeless(r.Frames[len(r.Frames)-1].String()) {
			picture = string(stored)
		}
	}
	golden.Equal(t, path, picture)
}

// How long frames stand in a picture, however busy the machine was.
const (
	shortFrame, longFrame = 60 * time.Millisecond, 400 * time.Millisecond
	lastFrame             = 4 * time.Second
)

// film returns the frames with times that are pleasant to watch.
func film(frames []screen.Frame) (film []screen.Frame) {
	for _, f := range frames {
		if n := len(film); n > 0 && film[n-1].String() == f.String() {
			continue
		}
		f.Stood = min(max(f.Stood, shortFrame), longFrame)
		film = append(film, f)
	}
	film[len(film)-1].Stood = lastFrame
	return film
}
