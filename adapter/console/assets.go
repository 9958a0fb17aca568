package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"sync"
)

//go:embed assets/*
var assetFiles embed.FS

// mediaTypes are the assets that are served. Others in the folder are licences and checksums.
var mediaTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// assetTags are the entity tags of assets: browsers ask whether an asset has changed.
var assetTags = sync.OnceValue(func() map[string]string {
	tags := map[string]string{}
	entries, _ := assetFiles.ReadDir("assets")
	for _, one := range entries {
		if content, err := assetFiles.ReadFile("assets/" + one.Name()); err == nil {
			sum := sha256.Sum256(content)
			tags[one.Name()] = `"` + hex.EncodeToString(sum[:8]) + `"`
		}
	}
	return tags
})

func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	content, err := assetFiles.ReadFile("assets/" + name)
	media := mediaTypes[path.Ext(name)]
	if err != nil || media == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", assetTags()[name])
	if r.Header.Get("If-None-Match") == assetTags()[name] {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(content)
}
