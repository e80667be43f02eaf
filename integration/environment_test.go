package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker/exec"
)

const environmentPage = "../docs/environment.md"

// fence matches a block of the page: its language and its text.
var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// TestEnvironment_ExamplesPrintWhatThePageSays runs every DAG of docs/environment.md, and compares with the block below it.
func TestEnvironment_ExamplesPrintWhatThePageSays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	workers := b.environmentWorkers(t)
	blocks := fence.FindAllStringSubmatch(read(t, environmentPage), -1)
	count := 0
	t.Run("example", func(t *testing.T) {
		for i, block := range blocks {
			if block[1] != "yaml" || !strings.HasPrefix(block[2], "name: ") {
				continue
			}
			count++
			if i+1 == len(blocks) || blocks[i+1][1] != "text" {
				t.Fatalf("no text follows %s", block[2])
			}
			source, want := strings.ReplaceAll(block[2], "/run/secrets", b.dir+"/secrets"), blocks[i+1][2]
			t.Run(strings.Fields(source)[1], func(t *testing.T) {
				t.Parallel()
				b.printsAs(t, source, want)
			})
		}
	})
	if _, err := b.db.Conn(t).Exec(t.Context(), read(t, "testdata/secrets.sql")); err != nil {
		t.Errorf("what no row may hold: %v", err)
	}
	for _, word := range []string{"correct-horse", "battery-staple", "swallow"} {
		for _, w := range workers {
			if strings.Contains(w.said.String(), word) {
				t.Errorf("the log of a worker holds the secret %s", word)
			}
		}
	}
	if count < 10 {
		t.Errorf("%d examples were found on the page", count)
	}
}

// environmentWorkers starts the workers that the page describes.
func (b *testBundle) environmentWorkers(t *testing.T) []*process {
	t.Helper()
	for name, text := range map[string]string{
		"secrets/api": "swallow\n",
		"get-secret":  "#!/bin/sh\ntest \"$*\" = '--of etl etl/s3' && echo battery-staple\n",
	} {
		b.writeProgram(t, name, text)
	}
	described := b.worker(
		t, "described", "queues=default", "env=COLOUR=red", "slots=16", "secrets_env=DB_*", "secrets_files="+b.dir+"/secrets/*",
		"secrets_command="+b.dir+"/get-secret,--of,etl", "$DB_WORD=correct-horse", "$GITHUB_PAT=hidden",
	)
	return []*process{described, b.worker(t, "listed", "queues=listed", "command_allow=/usr/bin/printenv")}
}

// writeProgram makes an executable file of the bench, with its folders.
func (b *testBundle) writeProgram(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// printsAs runs a DAG and compares the output of its tasks, and the end of those that do not succeed.
func (b *testBundle) printsAs(t *testing.T, source, want string) {
	t.Helper()
	run, err := b.Enqueue(t.Context(), queue.Request{DAG: b.registered(t, source), Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.printed(t, run); got != want {
		t.Errorf("it prints\n%s\nand not\n%s", got, want)
	}
}

// registered registers a DAG of a page, and returns its name.
func (b *testBundle) registered(t *testing.T, source string) string {
	t.Helper()
	spec, err := dagspec.Parse("page.yaml", []byte(source))
	if err == nil {
		_, err = b.PutDAG(t.Context(), spec, source, "page.yaml")
	}
	if err != nil {
		t.Fatal(err)
	}
	return spec.Name
}

// printed waits for the end of a run. It returns the last log of each task, and the state and reason of each task that did not
// succeed.
func (b *testBundle) printed(t *testing.T, run queue.RunID) string {
	t.Helper()
	b.await(t, run)
	tasks, err := b.Tasks(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for i := range tasks {
		task := &tasks[i]
		name := task.Step
		if task.Item != "" {
			name += "/" + task.Item
		}
		for line := range strings.Lines(b.logOf(t, run, task.Step, task.Item)) {
			fmt.Fprintf(&got, "%s: %s\n", name, strings.TrimSuffix(line, "\n"))
		}
		if task.State != "succeeded" {
			fmt.Fprintf(&got, "%s: %s: %s\n", name, task.State, task.Reason)
		}
	}
	text := regexp.MustCompile(`\brun `+strconv.FormatInt(int64(run), 10)+`\b`).ReplaceAllString(got.String(), "run 7")
	return regexp.MustCompile(`\bin [0-9.]+(µs|ms|s)\b`).ReplaceAllString(text, "in 8ms")
}

// TestEnvironment_PageHasTheListsInForce compares the lists of the page, and the lists that settings name, with the
// program's.
func TestEnvironment_PageHasTheListsInForce(t *testing.T) {
	t.Parallel()
	var lists []string
	for _, block := range fence.FindAllStringSubmatch(read(t, environmentPage), -1) {
		lists = append(lists, strings.Join(strings.Fields(block[2]), " "))
	}
	for _, list := range [][]string{exec.StandardDenyList, exec.LoaderVariables} {
		if want := strings.Join(list, " "); !slices.Contains(lists, want) {
			t.Errorf("%s lacks %s", environmentPage, want)
		}
	}
}
