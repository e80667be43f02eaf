package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

const languagePage = "../docs/language.md"

// pageAddress is the server of the examples of docs/language.md. The test has a server of its own in its place.
const pageAddress = "https://rates.example.org"

// TestLanguage_ExamplesPrintWhatThePageSays runs every DAG of docs/language.md that a block of text follows, and compares.
func TestLanguage_ExamplesPrintWhatThePageSays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := rates(t)
	b.worker(t, "w1", "slots=16", "http_allow=127.0.0.0/8", "labels=disk=ssd", "secrets_env=DB_*", "$DB_PASSWORD=correct-horse")
	type example struct {
		name, want string
		run        queue.RunID
	}
	var examples []example
	for _, block := range pageExamples(t, languagePage) {
		source := strings.ReplaceAll(block.source, pageAddress, server)
		if block.prints {
			examples = append(examples, example{b.registered(t, source), block.want, 0})
		}
	}
	for i := range examples {
		examples[i].run = b.enqueue(t, examples[i].name, nil)
	}
	for _, x := range examples {
		t.Run(x.name, func(t *testing.T) {
			if x.name == "deploy" {
				approve(t, b, x.run)
			}
			got := b.printed(t, x.run)
			r, err := b.Get(t.Context(), x.run)
			if err != nil {
				t.Fatal(err)
			}
			if state := fmt.Sprint(r.State); state != "succeeded" {
				got += fmt.Sprintf("run: %s: %s\n", state, r.Reason)
			}
			if got = strings.ReplaceAll(got, server, pageAddress); got != x.want {
				t.Errorf("it prints\n%s\nand not\n%s", got, x.want)
			}
		})
	}
	if len(examples) < 25 {
		t.Errorf("%d examples with output were found on the page", len(examples))
	}
}

// rates is a server that knows a rate, and is ready.
func rates(t *testing.T) string {
	t.Helper()
	var mux http.ServeMux
	mux.HandleFunc("POST /eur", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "text/plain" || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprint(w, "1.09")
	})
	mux.HandleFunc("GET /ready", func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(&mux)
	t.Cleanup(server.Close)
	return server.URL
}

// pageExample is a whole DAG of a page, with the text below it.
type pageExample struct {
	name, source string
	prints       bool   // a block of text follows
	want         string // the text that follows
}

func pageExamples(t *testing.T, page string) (all []pageExample) {
	t.Helper()
	blocks := fence.FindAllStringSubmatch(read(t, page), -1)
	for i, block := range blocks {
		if block[1] != "yaml" || !strings.HasPrefix(block[2], "name: ") {
			continue
		}
		x := pageExample{name: strings.Fields(block[2])[1], source: block[2]}
		if rest := blocks[i+1:]; len(rest) > 0 && rest[0][1] == "text" {
			x.prints, x.want = true, rest[0][2]
		}
		if slices.ContainsFunc(all, func(other pageExample) bool { return other.name == x.name }) {
			t.Errorf("%s has two DAGs with the name %s", page, x.name)
		}
		all = append(all, x)
	}
	return all
}
