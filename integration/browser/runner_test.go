package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

const (
	browserEnv = "OARLOCK_TEST_BROWSER" // the output of tools/ensure-browser; if it is set, no test here skips
	toolFolder = "../../tools/browser"
	modules    = "../../.cache/browser/node_modules/playwright-core"
)

// verdict is the runner's result for one script.
type verdict struct {
	Name string
	OK   bool
	Ms   int    // from an empty context until it was closed
	Why  string // one line for each fault
}

// needBrowser skips a test if a browser, Node, or a package of tools/browser is missing.
func needBrowser(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	missing := ""
	if _, err := exec.LookPath("node"); err != nil {
		missing = "Node: on Debian, apt-get install nodejs npm"
	}
	if _, err := os.Stat(modules); err != nil {
		missing = "modules of tools/browser: run tools/ensure-browser"
	}
	path := os.Getenv(browserEnv)
	if path == "" && !slices.ContainsFunc([]string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"}, isProgram) || path == "none" {
		missing = "Chromium: on Debian, apt-get install chromium, then tools/ensure-browser"
	}
	switch {
	case missing == "":
	case path != "" && path != "none":
		t.Fatalf("%s is %s, and there is no %s", browserEnv, path, missing)
	default:
		t.Skip("no " + missing)
	}
}

func isProgram(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

// runScripts runs the scripts of a folder, or those of tools/browser if folder is "", against the pages at base, and
// yields each verdict as it comes. The scripts get the world as JSON. With OARLOCK_TEST_SHOTS=FOLDER they leave pictures
// there.
func runScripts(t *testing.T, base, folder string, world any, names ...string) iter.Seq[verdict] {
	return func(yield func(verdict) bool) {
		t.Helper()
		text, err := json.Marshal(world)
		if err != nil {
			t.Fatal(err)
		}
		args := append([]string{filepath.Join(toolFolder, "run.mjs"), "--json", "--base", base, "--world", string(text)}, names...)
		if folder != "" {
			args = append(args, "--scripts", folder)
		}
		cmd := exec.CommandContext(t.Context(), "node", args...)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		verdicts, failed := 0, false
		for lines := bufio.NewScanner(out); lines.Scan(); verdicts++ {
			var v verdict
			if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
				t.Fatalf("%v: %s", err, lines.Bytes())
			}
			failed = failed || !v.OK
			if !yield(v) {
				break
			}
		}
		err = cmd.Wait()
		if said.Len() > 0 || verdicts == 0 || (err != nil) != failed {
			t.Fatalf("the runner: %v\n%s", err, said.Bytes())
		}
	}
}
