package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	container "github.com/google/go-containerregistry/pkg/v1"
	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
)

// unpacked is the index of the layout that the tar holds.
func unpacked(t *testing.T, file string) container.ImageIndex {
	t.Helper()
	folder := t.TempDir()
	archive, err := os.Open(file)
	must(t, err)
	defer archive.Close()
	eachFile(t, archive, func(header *tar.Header, content io.Reader) {
		path := filepath.Join(folder, header.Name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		text, err := io.ReadAll(content)
		must(t, err)
		must(t, os.WriteFile(path, text, 0o644))
	})
	index, err := ocilayout.ImageIndexFromPath(folder)
	must(t, err)
	return index
}

func eachFile(t *testing.T, archive io.Reader, do func(*tar.Header, io.Reader)) {
	t.Helper()
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		do(header, reader)
	}
}

// imagesOf are the images that the layout's one index lists, by platform.
func imagesOf(t *testing.T, outer container.ImageIndex) map[string]container.Image {
	t.Helper()
	manifest, err := outer.IndexManifest()
	must(t, err)
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%d entries in index.json: want one index, or tools ask which", len(manifest.Manifests))
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	must(t, err)
	manifest, err = index.IndexManifest()
	must(t, err)
	images := map[string]container.Image{}
	for _, described := range manifest.Manifests {
		image, err := index.Image(described.Digest)
		must(t, err)
		images[described.Platform.OS+"/"+described.Platform.Architecture] = image
	}
	return images
}

func holds(t *testing.T, file, path string) (found bool) {
	t.Helper()
	archive, err := os.Open(file)
	must(t, err)
	defer archive.Close()
	eachFile(t, archive, func(header *tar.Header, _ io.Reader) { found = found || header.Name == path })
	return found
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
