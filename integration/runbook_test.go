package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const runbookPage = "../docs/operations.md"

// runbook plays a page, or a section of docs/operations.md. A test brings about the situation, and the page says what a
// person types and sees. In its blocks `…` stands for any text, and blanks match any number of blanks.
type runbook struct {
	*testBundle
	title   string
	url     string            // for the person that types; "": the page itself gives the address
	oarlock string            // the program that is typed
	shell   string            // commands that each terminal begins with: earlier exports
	words   map[string]string // what stands for the page's placeholders: RUN, and addresses
	blocks  [][]string        // blocks that were not played yet: language and text
}

// looks matches commands that change nothing. They are typed again until they show the expected output.
var looks = regexp.MustCompile(`^oarlock (workers|status|events|list|logs|doctor|approvals|stats)\b`)

// exports matches commands that later commands in a terminal depend on.
var exports = regexp.MustCompile(`^(export|set -a)\b`)

// openRunbook opens a section, which must be played to its end.
func (b *testBundle) openRunbook(t *testing.T, title string) *runbook {
	t.Helper()
	_, section, found := strings.Cut(read(t, runbookPage), "\n### "+title+"\n")
	if !found {
		t.Fatalf("%s has no section %q", runbookPage, title)
	}
	return b.openBook(t, title, regexp.MustCompile(`(?m)^###? `).Split(section, 2)[0])
}

// openBook opens a text, which must be played to its end.
func (b *testBundle) openBook(t *testing.T, title, text string) *runbook {
	t.Helper()
	book := &runbook{testBundle: b, title: title, url: b.db.URL, oarlock: program, words: map[string]string{}, blocks: fence.FindAllStringSubmatch(text, -1)}
	t.Cleanup(func() {
		if len(book.blocks) > 0 && !t.Failed() && !t.Skipped() {
			t.Errorf("%q: %d blocks were not played, the first is\n%s", title, len(book.blocks), book.blocks[0][2])
		}
	})
	return book
}

// next takes the next block, which must have this language.
func (r *runbook) next(t *testing.T, language string) string {
	t.Helper()
	if len(r.blocks) == 0 || r.blocks[0][1] != language {
		t.Fatalf("%q: no block of %s comes next", r.title, language)
	}
	text := r.blocks[0][2]
	r.blocks = r.blocks[1:]
	for word, value := range r.words {
		text = strings.ReplaceAll(text, word, value)
	}
	return text
}

// ahead returns the next block of a language without taking it.
func (r *runbook) ahead(t *testing.T, language string) string {
	t.Helper()
	for _, block := range r.blocks {
		if block[1] == language {
			return block[2]
		}
	}
	t.Fatalf("%q: no block of %s is left", r.title, language)
	return ""
}

// console types the commands of the next block, one after the other, until each shows the output below it.
func (r *runbook) console(t *testing.T) {
	t.Helper()
	for _, part := range strings.Split("\n"+r.next(t, "console"), "\n$ ")[1:] {
		command, want, _ := strings.Cut(part, "\n")
		if exports.MatchString(command) {
			r.shell += command + "\n"
		}
		out, wrong := r.shows(command, want)
		for end := time.Now().Add(patience); wrong != "" && looks.MatchString(command) && time.Now().Before(end); {
			out, wrong = r.shows(command, want)
		}
		if wrong != "" {
			t.Fatalf("%q: $ %s\n%s\n%s", r.title, command, out, wrong)
		}
		if testing.Verbose() {
			t.Logf("$ %s\n%s", command, out)
		}
	}
}

// shows types a command, and compares its output with the page.
func (r *runbook) shows(command, want string) (out, wrong string) {
	out, status := r.types(command)
	if line := missing(out, want); line != "" {
		return out, fmt.Sprintf("lacks %q", line)
	}
	if command == "oarlock doctor" {
		return out, misjudged(out, want, status)
	}
	if refused := strings.Contains("\n"+want, "\noarlock: "); refused == (status == 0) {
		return out, fmt.Sprintf("ended with %d", status)
	}
	return out, ""
}

// failed matches the line of a failed check.
var failed = regexp.MustCompile(`(?m)^fail +(\S+)`)

// misjudged explains how doctor's output contradicts the page or its exit status: a check failed and the status is not 1,
// or a check failed that the page does not mention. The servers of tests are not durable, which no page mentions.
func misjudged(out, page string, status int) string {
	found := failed.FindAllStringSubmatch(out, -1)
	if wanted := min(len(found), 1); status != wanted {
		return fmt.Sprintf("ended with %d", status)
	}
	told := failed.FindAllStringSubmatch(page, -1)
	for _, check := range found {
		if check[1] != "durability" && !slices.ContainsFunc(told, func(line []string) bool { return line[1] == check[1] }) {
			return "fails " + check[1] + ", of which the page does not tell"
		}
	}
	return ""
}

// types types a command and returns its output and its exit status.
func (r *runbook) types(command string) (text string, status int) {
	cmd := exec.Command("sh", "-c", r.shell+command)
	cmd.Dir = r.dir
	cmd.Env = []string{"PATH=" + filepath.Dir(r.oarlock) + ":" + os.Getenv("PATH"), "HOME=" + r.dir, "DATABASE_URL=" + r.url, "TZ=UTC"}
	out, _ := cmd.CombinedOutput() // the status shows how it ends
	return string(out), cmd.ProcessState.ExitCode()
}

// terminal types the next block in a terminal of its own, with these settings. It returns the process of the last command,
// which goes on there.
func (r *runbook) terminal(t *testing.T, settings ...string) *process {
	t.Helper()
	before, last, _ := strings.Cut("\n"+r.next(t, "console"), "\n$ oarlock ")
	before = strings.TrimPrefix(before, "\n$ ")
	words, want, _ := strings.Cut(last, "\n")
	there := *r.testBundle
	there.within = []string{"sh", "-c", r.shell + before + "\n" + `exec "$@"`, "sh"}
	p := there.start(t, settings, strings.Fields(words)...)
	r.says(t, p, want)
	return p
}

// log waits until a process has printed the lines of the next block.
func (r *runbook) log(t *testing.T, p *process) {
	t.Helper()
	r.says(t, p, r.next(t, "text"))
}

func (r *runbook) says(t *testing.T, p *process, want string) {
	t.Helper()
	for end := time.Now().Add(patience); missing(p.said.String(), want) != ""; {
		if time.Now().After(end) {
			t.Fatalf("%q: the log lacks %q", r.title, missing(p.said.String(), want))
		}
		pause := time.NewTimer(20 * time.Millisecond)
		<-pause.C
	}
}

// missing returns the first wanted line that does not follow in a text; "": all do.
func missing(text, want string) string {
	for line := range strings.Lines(want) {
		line = strings.TrimSpace(line)
		if line == "" || line == "…" {
			continue
		}
		pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.Join(strings.Fields(line), " ")), "…", ".*")
		found := regexp.MustCompile(`(?m)` + strings.ReplaceAll(pattern, " ", `[ \t]+`)).FindStringIndex(text)
		if found == nil {
			return line
		}
		text = text[found[1]:]
	}
	return ""
}
