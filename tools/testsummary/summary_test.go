package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var rewrite = flag.Bool("rewrite", false, "write what is printed into testdata")

// Each file in testdata holds a stream of `go test -json` and what people must see of it.
func TestSummary_OfRecordedStreams(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no streams in testdata: %v", err)
	}
	for _, p := range files {
		t.Run(strings.TrimSuffix(filepath.Base(p), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(p)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			s := newSummary(&out)
			if err := s.read(strings.NewReader(string(archive.Files[0].Data))); err != nil {
				t.Fatal(err)
			}
			verdict := "good\n"
			if !s.close() {
				verdict = "bad\n"
			}
			got := out.String() + verdict
			if *rewrite {
				archive.Files[1].Data = []byte(got)
				os.WriteFile(p, txtar.Format(archive), 0o600)
			}
			if diff := cmp.Diff(string(archive.Files[1].Data), got); diff != "" {
				t.Errorf("summary differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSummary_ShowsStartAndEndOfLongOutput(t *testing.T) {
	t.Parallel()
	var output []string
	for n := range shownLines + 7 {
		output = append(output, fmt.Sprintf("line %d\n", n))
	}
	var out strings.Builder
	newSummary(&out).show("TestChatty", output)
	for _, want := range []string{"line 0\n", "… 7 lines left out", fmt.Sprintf("line %d\n", shownLines+6)} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not shown", want)
		}
	}
	if strings.Contains(out.String(), fmt.Sprintf("line %d\n", shownLines/2)) {
		t.Error("a line from the middle is shown")
	}
}

func TestReason_IsWhatTheTestSaid(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{
		"needs root":       {"=== RUN TestX\n", "    x_test.go:7: needs root\n", "--- SKIP: TestX (0.00s)\n"},
		"needs a database": {"        > [!db] [linux] skip 'needs a database'\n"},
		"no reason given":  {"=== RUN TestX\n", "--- SKIP: TestX (0.00s)\n"},
		"needs a shell":    {"        > skip 'needs a shell'\n"},
	}
	for want, output := range cases {
		if got := reason(output); got != want {
			t.Errorf("reason(%q) = %q, want %q", output, got, want)
		}
	}
}
