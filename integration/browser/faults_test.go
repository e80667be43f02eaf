package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

const plantedPage = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Planted</title>
<link rel="stylesheet" href="/sound.css"><link rel="stylesheet" href="/%s.css"></head>
<body><main><h1>Planted</h1><p>Nothing is wrong.</p>%s<p><a id="on" href="/wide">Go on</a></p></main></body></html>
`

// Styles by page. All pages have the sound style, too.
var plantedStyles = map[string]string{
	"sound": ":root { color-scheme: light dark } body { color: light-dark(#111, #eee); background: light-dark(#fff, #111) }" +
		" a { color: light-dark(#0b5f7d, #6cc7e3) }",
	"wide":   "h1 { width: 500px }",
	"hidden": "html { display: none }",
	"focus":  "a:focus { outline: none }",
	"faulty": "#a { color: #333 }", // too dark for the dark scheme
	"fails":  "",
}

const faultyParts = `<img src="/dot.svg"><p id="a">One</p><p id="a">Two</p><p style="margin: 0">Three</p>
<p><img src="/dot.svg" alt="" onload="alert(1)"></p><script>alert(2)</script><p><img src="http://127.0.0.1:1/x.png" alt=""></p>`

// complaints are what the runner must report about complains.mjs.
var complaints = []string{
	"500 from", "CSP: script-src-attr", "CSP: script-src-elem", "CSP: style-src-attr", "request to http://127.0.0.1:1/x.png",
	"(no-dup-id)", "(no-inline-style)", "(wcag/h37)", "axe, 1560 px, light: image-alt", "axe, 390 px, light: image-alt",
	"axe, 1560 px, dark: color-contrast",
	"console: oh no", "dialog: hello", "page error: oops", "console: said aside",
}

// A runner that overlooks a fault would let all pages pass, so each kind of fault is planted once.
func TestRunner_NoticesFaults(t *testing.T) {
	t.Parallel()
	if !*nightly {
		t.Skip("a fault of each kind is planted by night: -nightly")
	}
	needBrowser(t)
	server := httptest.NewServer(http.HandlerFunc(servePlanted))
	t.Cleanup(server.Close)
	folder, err := filepath.Abs("testdata/planted")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"sound": nil, "asserts": {"one is two"}, "complains": complaints}
	verdicts := 0
	for v := range runScripts(t, server.URL, folder, nil) {
		verdicts++
		if v.OK != (want[v.Name] == nil) {
			t.Errorf("%s: passed is %v, %s", v.Name, v.OK, v.Why)
		}
		for _, what := range want[v.Name] {
			if !strings.Contains(v.Why, what) {
				t.Errorf("%s: the runner does not say %q of it, but:\n%s", v.Name, what, v.Why)
			}
		}
	}
	if verdicts != len(want) {
		t.Errorf("%d verdicts of %d scripts", verdicts, len(want))
	}
}

func servePlanted(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	w.Header().Set("Content-Security-Policy", "default-src 'self'; img-src *")
	style, isStyle := strings.CutSuffix(name, ".css")
	_, planted := plantedStyles[style]
	parts := ""
	switch {
	case isStyle:
		w.Header().Set("Content-Type", "text/css")
		fmt.Fprint(w, plantedStyles[style])
		return
	case name == "dot.svg":
		w.Header().Set("Content-Type", "image/svg+xml")
		fmt.Fprint(w, `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>`)
		return
	case name == "faulty":
		parts = faultyParts
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	switch {
	case name == "fails":
		w.WriteHeader(http.StatusInternalServerError)
	case !planted:
		w.WriteHeader(http.StatusNotFound)
	}
	fmt.Fprintf(w, plantedPage, name, parts)
}
