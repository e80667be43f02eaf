package browser

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/web"
)

// basePath is the path of the pages, so that a link without it leads out of them.
const basePath = "/x/y"

var (
	only     = flag.String("scripts", "", "run only these scripts of tools/browser, separated by blanks")
	nightly  = flag.Bool("nightly", false, "run all scripts, with every rule for every part of a page; by day those that no Go test stands for")
	pictures = flag.Bool("pictures", false, "only draw the pictures of docs/pictures that show pages")
)

// byDay are scripts about things that only a browser shows: streams, keys, growing logs, pages without scripts, and one
// page of each kind for the accessibility rules.
var byDay = strings.Fields("act approvals bulk dags hostile items live-away live-log live-takeover log run run-keys run-plain runs signin")

// TestPages runs one script of tools/browser for each way in which users work with the pages.
func TestPages(t *testing.T) {
	t.Parallel()
	needBrowser(t)
	s, w := populate(t)
	handler, err := web.Handler(s.Store, web.Options{Base: basePath, Name: "prod" + hostileName(), Version: "0.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	w.Person, w.Word = "ana@example.org", "a word of hers"
	served := serve(t, besides(handler, signedSite(t, s.Store, w.Person, w.Word)))
	w.Control = served.control(t, map[string]func() error{"swap": func() error { return s.swap(t) }})
	folder := ""
	if *pictures {
		if w.Pictures, err = filepath.Abs("../../docs/pictures"); err != nil {
			t.Fatal(err)
		}
		if folder, err = filepath.Abs(toolFolder + "/pictures"); err != nil {
			t.Fatal(err)
		}
	}
	scripts := strings.Fields(*only)
	if len(scripts) == 0 && !*nightly && !*pictures {
		scripts = byDay
	}
	w.All = *nightly
	for v := range runScripts(t, "http://"+served.address+basePath, folder, w, scripts...) {
		t.Run(v.Name, func(t *testing.T) {
			t.Logf("%d ms", v.Ms)
			if !v.OK {
				t.Error(v.Why)
			}
		})
	}
}

// hostileName returns a hostile part for names, "" when pictures are made of the pages.
func hostileName() string {
	if *pictures {
		return ""
	}
	return "<i data-xss>"
}
