package browser

import (
	"net/http/httptest"
	"testing"

	"github.com/oarlock-dev/oarlock/web"
)

// basePath is where the pages are served: a link that forgets it leads out of them.
const basePath = "/x/y"

// What people do with the pages, each way to do it a script of tools/browser.
func TestPages(t *testing.T) {
	t.Parallel()
	needBrowser(t)
	s, w := populate(t)
	handler, err := web.Handler(s.Store, web.Options{Base: basePath, Name: "prod<i data-xss>", Version: "0.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	for v := range runScripts(t, server.URL+basePath, "", w) {
		t.Run(v.Name, func(t *testing.T) {
			t.Logf("%d ms", v.Ms)
			if !v.OK {
				t.Error(v.Why)
			}
		})
	}
}
