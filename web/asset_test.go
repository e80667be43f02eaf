package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const assetsLimit = 60 << 10 // compressed, all together: a page on a phone at night

func TestAssets_AreSmall(t *testing.T) {
	t.Parallel()
	all, err := loadAssets()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, a := range all {
		sum += len(a.gzipped)
	}
	if sum > assetsLimit {
		t.Errorf("all assets are %d bytes compressed, more than %d", sum, assetsLimit)
	}
	if script := len(all["app.js"].gzipped); script > 8<<10 {
		t.Errorf("app.js is %d bytes compressed", script)
	}
}

func TestAssets_ServedForEver(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{Base: "/x"})
	for name, kind := range map[string]string{"app.css": "text/css; charset=utf-8", "app.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"} {
		at, err := b.server.assets.path("/x", name)
		if err != nil {
			t.Fatal(err)
		}
		plain := b.get(t, at)
		if plain.Code != http.StatusOK || plain.Header().Get("Content-Type") != kind || !strings.Contains(plain.Header().Get("Cache-Control"), "immutable") || plain.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: %d %v", name, plain.Code, plain.Header())
		}
		packed := b.get(t, at, func(r *http.Request) { r.Header.Set("Accept-Encoding", "br, gzip;q=0.8") })
		unpacked, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text, err := io.ReadAll(unpacked); err != nil || !bytes.Equal(text, plain.Body.Bytes()) || packed.Header().Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: unpacked it is another: %v", name, err)
		}
		if w := b.get(t, at, func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip;q=0") }); w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s is compressed for a client that refuses it", name)
		}
		old := b.get(t, "/x/asset/000000000000/"+name)
		if old.Code != http.StatusSeeOther || old.Header().Get("Location") != at || old.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("of another version: %d %v", old.Code, old.Header())
		}
	}
	for _, path := range []string{"/x/asset/000000000000/vendor.json", "/x/asset/0/none.js"} {
		if w := b.get(t, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// TestVendor_IsWhatItSays compares vendored files with the hashes of the reviewed versions.
func TestVendor_IsWhatItSays(t *testing.T) {
	t.Parallel()
	var listed []struct{ File, Name, Version, Licence, Source, SHA384 string }
	text, err := assetFiles.ReadFile("asset/vendor/vendor.json")
	if err == nil {
		err = json.Unmarshal(text, &listed)
	}
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(assetFiles, "asset/vendor/*.*")
	if err != nil || len(files) != len(listed)+1 {
		t.Errorf("%v and %d listed, %v", files, len(listed), err)
	}
	for _, v := range listed {
		plain, err := assetFiles.ReadFile(path.Join("asset/vendor", v.File))
		sum := sha512.Sum384(plain)
		if got := base64.StdEncoding.EncodeToString(sum[:]); err != nil || got != v.SHA384 || v.Name == "" || v.Version == "" || v.Licence == "" || v.Source == "" {
			t.Errorf("%+v is %s, %v", v, got, err)
		}
	}
}

// TestTemplates_KeepThePolicy finds markup that our Content-Security-Policy would block in a browser.
func TestTemplates_KeepThePolicy(t *testing.T) {
	t.Parallel()
	inline := regexp.MustCompile(`(?i)\sstyle=|\son[a-z]+=|<style|javascript:|<script(?:[^>]*[^>]src=[^>]*>[^<]|>)`)
	link := regexp.MustCompile(`\s(?:href|src|action)="([^"]*)"?`)
	eachTemplate(t, func(name, text string) {
		if at := inline.FindString(text); at != "" {
			t.Errorf("%s has %q", name, at)
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if !strings.HasPrefix(m[1], "{{path ") && !strings.HasPrefix(m[1], "{{asset ") && !strings.HasPrefix(m[1], "#") {
				t.Errorf("%s links to %s, not by path or asset", name, m[1])
			}
		}
	})
	for _, name := range []string{"app.js", "run.js"} {
		script, err := assetFiles.ReadFile("asset/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if at := regexp.MustCompile(`\beval\(|new Function|\.style\b|document\.write`).Find(script); at != nil {
			t.Errorf("%s has %s", name, at)
		}
	}
}

// TestTemplates_UseClassesThatExist reads the classes of templates, and those that our markup adds.
func TestTemplates_UseClassesThatExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	var all strings.Builder // a class that is put together, such as v-number, must begin like a class of the style sheets
	for _, name := range []string{"app.css", "run.css"} {
		sheet, err := assetFiles.ReadFile("asset/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\.([a-z][a-zA-Z0-9_-]*)`).FindAllSubmatch(sheet, -1) {
			known[string(m[1])] = true
		}
		all.Write(sheet)
	}
	class := regexp.MustCompile(`class="([^"{]*)`)
	look := func(name, text string) {
		for _, m := range class.FindAllStringSubmatch(text, -1) {
			for one := range strings.FieldsSeq(m[1]) {
				isPart := strings.HasSuffix(one, "-") && strings.Contains(all.String(), "."+one)
				if !known[one] && one != "%s" && !isPart {
					t.Errorf("%s uses class %s, which no style sheet knows", name, one)
				}
			}
		}
	}
	eachTemplate(t, look)
	text, err := os.ReadFile("markup.go")
	if err != nil {
		t.Fatal(err)
	}
	look("markup.go", string(text))
	for _, state := range runStates {
		if !known[state] {
			t.Errorf("app.css has no colour for state %s", state)
		}
	}
}

// TestMarkup_IsMadeInOnePlace allows trusted markup only in the files that escape texts.
func TestMarkup_IsMadeInOnePlace(t *testing.T) {
	t.Parallel()
	makers := []string{"markup.go", "draw", "loghtml"} // template.HTML as the type of a field is allowed
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || slices.Contains(makers, strings.Split(name, "/")[0]) {
			return err
		}
		text, err := os.ReadFile(name)
		if at := regexp.MustCompile(`template\.(HTML|HTMLAttr|JS|JSStr|CSS|URL|Srcset)\(`).Find(text); at != nil {
			t.Errorf("%s makes %s", name, at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func eachTemplate(t *testing.T, look func(name, text string)) {
	t.Helper()
	names, err := fs.Glob(templates, "template/*.html")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := templates.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		look(name, string(text))
	}
}
