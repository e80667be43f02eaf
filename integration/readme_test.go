package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/golden"
	"github.com/oarlock-dev/oarlock/queue"
)

const readme = "../README.md"

// fenced returns the blocks of a language in a document.
func fenced(t *testing.T, path, language string) (blocks []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(read(t, path), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// The README's command shows the picture below it. Another test covers the commands of make.
func TestReadme_CommandShowsItsPicture(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a server")
	}
	state, err := os.MkdirTemp("", "oarlock-state-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	if err := os.Chmod(state, 0o711); err != nil {
		t.Fatal(err)
	}
	oarlock := func(words []string) *exec.Cmd {
		cmd := exec.Command(program, words...)
		cmd.Dir, cmd.Env = "..", []string{"PATH=" + os.Getenv("PATH"), "HOME=" + state, "XDG_STATE_HOME=" + state, "TERM=xterm"}
		return cmd
	}
	words := strings.Fields(strings.TrimPrefix(fenced(t, readme, "sh")[1], "bin/oarlock"))
	if out, err := oarlock(words).CombinedOutput(); err != nil {
		t.Fatalf("oarlock %v: %v\n%s", words, err, out)
	}
	holdPicture(t, "../docs/pictures/run.svg", oarlock(words), "$ oarlock "+strings.Join(words, " "))
}

// Each picture of a DAG is the output of its command.
func TestDocuments_GraphIsDrawnByItsCommand(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(program, strings.Fields("dag graph examples/etl/nightly.yaml -o svg")...)
	cmd.Dir = ".."
	drawn, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "../docs/pictures/graph.svg", string(drawn))
}

// The README's insert works for a login that may submit and owns the business table.
func TestReadme_InsertMakesARun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	people := *b
	people.url = b.db.URL
	people.oarlock(t, "dag", "apply", absolute(t, []string{"../examples/events/order-paid.yaml"})[0])
	conn := b.db.Conn(t)
	if _, err := conn.Exec(t.Context(), read(t, "testdata/orders.sql")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), fenced(t, readme, "sql")[0]); err != nil {
		t.Fatal(err)
	}
	page, err := b.List(t.Context(), queue.Filter{DAG: "order-paid"})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].Key != "order-paid-1234" {
		t.Fatalf("%+v, %v", page.Runs, err)
	}
	b.worker(t, "w1")
	if got, want := b.await(t, page.Runs[0].ID), "succeeded fraud-check=succeeded reserve=succeeded pick=succeeded tell=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The README's DAG runs on a worker and loads what it extracted.
func TestReadme_DAGRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.db.Conn(t)
	if _, err := conn.Exec(t.Context(), read(t, "testdata/loads.sql")); err != nil {
		t.Fatal(err)
	}
	b.put(t, fenced(t, readme, "yaml")[0])
	b.worker(t, "w1")
	run := b.enqueue(t, "nightly", map[string]any{"day": "2026-11-20"})
	if got, want := b.await(t, run), "succeeded extract=succeeded load=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var loads string
	if err := conn.QueryRow(t.Context(), read(t, "testdata/loaded.sql")).Scan(&loads); err != nil || loads != "2026-11-20 1" {
		t.Errorf("loads holds %q, %v", loads, err)
	}
}

// Every complete DAG on a page is valid.
func TestReadme_DAGIsValid(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{readme, "../docs/schedules.md"} {
		for _, block := range fenced(t, doc, "yaml") {
			file := filepath.Join(t.TempDir(), "dag.yaml")
			if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(program, "dag", "validate", file).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", doc, err, out)
			}
		}
	}
}

var (
	oarlockCall = regexp.MustCompile("(?:^|[`|&;(] *|\\$ )(?:bin/)?oarlock((?: +[^\\s`|&;<>()]+)*)")
	flagWord    = regexp.MustCompile(`^(-[a-zA-Z]|--[a-z][a-z-]*)`)
	verbWord    = regexp.MustCompile(`^[a-z]+$`)
)

// Each command in a document exists, with its flags.
func TestDocuments_NameCommandsThatExist(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("../docs/*.md")
	files = slices.DeleteFunc(files, func(f string) bool { return f == "../docs/cli.md" }) // the program wrote it
	files = append(files, readme, "../deploy/README.md", "../examples/README.md", "../compose.yaml", "../SECURITY.md")
	help := map[string]string{}
	calls := 0
	for _, file := range files {
		for n, line := range strings.Split(read(t, file), "\n") {
			for _, m := range oarlockCall.FindAllStringSubmatch(line, -1) {
				words := strings.Fields(m[1])
				if len(words) == 0 || !verbWord.MatchString(words[0]) {
					continue // the sentence is about the program
				}
				calls++
				if why := checkCall(help, words); why != "" {
					t.Errorf("%s:%d: oarlock %s: %s", filepath.Base(file), n+1, strings.Join(words, " "), why)
				}
			}
		}
	}
	if calls < 40 {
		t.Errorf("found only %d calls in %d documents", calls, len(files))
	}
}

// checkCall explains what is wrong with the words after oarlock, "" for nothing.
func checkCall(help map[string]string, words []string) string {
	path, text := []string{}, helpOf(help, nil)
	global := text
	for len(words) > 0 && strings.Contains(text, "\n  "+words[0]+" ") {
		path, words = append(path, words[0]), words[1:]
		if text = helpOf(help, path); !strings.Contains(text, "\nCOMMANDS\n") {
			break
		}
	}
	if len(path) == 0 {
		return "no such command"
	}
	for _, w := range words {
		if w == "--" {
			break
		}
		flag := flagWord.FindString(w)
		known := func(text string) bool {
			return slices.ContainsFunc([]string{" ", ",", "\n"}, func(end string) bool { return strings.Contains(text, flag+end) })
		}
		if flag != "" && flag != "--help" && !known(text) && !known(global) {
			return "it has no " + flag
		}
	}
	return ""
}

func helpOf(known map[string]string, path []string) string {
	key := strings.Join(path, " ")
	if _, ok := known[key]; !ok {
		out, _ := exec.Command(program, append(slices.Clone(path), "--help")...).Output()
		known[key] = string(out)
	}
	return known[key]
}
