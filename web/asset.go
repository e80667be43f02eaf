package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed asset
var assetFiles embed.FS

// asset is a file that pages load. Its path contains a hash of its content, so that browsers can keep it for a year.
type asset struct {
	name, hash, kind string
	plain, gzipped   []byte
}

// assets holds each asset by its file name without folders.
type assets map[string]*asset

// loadAssets reads all embedded assets, and hashes and compresses each. It leaves out files with the extension .json.
func loadAssets() (assets, error) {
	all := assets{}
	err := fs.WalkDir(assetFiles, "asset", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) == ".json" {
			return err
		}
		plain, err := assetFiles.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		a, err := newAsset(path.Base(name), plain)
		all[path.Base(name)] = a
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load assets: %w", err)
	}
	return all, nil
}

func newAsset(name string, plain []byte) (*asset, error) {
	sum := sha256.Sum256(plain)
	a := &asset{name: name, hash: hex.EncodeToString(sum[:6]), plain: plain, kind: mime.TypeByExtension(path.Ext(name))}
	switch path.Ext(name) { // the tables of MIME types differ between machines
	case ".js":
		a.kind = "text/javascript; charset=utf-8"
	case ".css":
		a.kind = "text/css; charset=utf-8"
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(plain)
	}
	if err == nil {
		err = z.Close()
	}
	a.gzipped = b.Bytes()
	if err != nil {
		return nil, fmt.Errorf("compress %s: %w", name, err)
	}
	return a, nil
}

// path returns the path of the asset called name, with its hash, for a server with base before its paths.
func (all assets) path(base, name string) (string, error) {
	a, ok := all[name]
	if !ok {
		return "", fmt.Errorf("there is no asset %s", name)
	}
	return base + "/asset/" + a.hash + "/" + name, nil
}

// asset serves an asset. Behind a load balancer, a page from another version of the server may ask for a hash that this server
// does not have: the browser is then redirected to the current file.
func (s *server) asset(w http.ResponseWriter, r *http.Request) error {
	a, ok := s.assets[r.PathValue("name")]
	if !ok {
		return nothingHere(w, r)
	}
	if r.PathValue("hash") != a.hash {
		s.redirect(w, r, "/asset/"+a.hash+"/"+a.name)
		return nil
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := a.plain
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = a.gzipped
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	_, _ = w.Write(body) // the client may have gone, so an error is ignored
	return nil
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.TrimSpace(name) == "gzip" && strings.Trim(weight, " q=0.") != "" || strings.TrimSpace(name) == "gzip" && weight == "" {
			return true
		}
	}
	return false
}
