package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"

	container "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	oci "github.com/opencontainers/image-spec/specs-go/v1"
)

// archive returns the index as a tar: an OCI image layout with a manifest.json. "docker load" reads
// the manifest.json if Docker does not store images in containerd.
func (r release) archive(index container.ImageIndex) ([]byte, error) {
	folder, err := os.MkdirTemp("", "sluice-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	outer := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index, Descriptor: container.Descriptor{
		Annotations: map[string]string{
			oci.AnnotationRefName:      r.version,
			"io.containerd.image.name": "docker.io/library/sluice:" + r.version,
		},
	}})
	if _, err := layout.Write(folder, outer); err != nil {
		return nil, err
	}
	docker, err := r.dockerManifest(index)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "manifest.json"), docker, 0o644); err != nil {
		return nil, err
	}
	return r.tarOf(os.DirFS(folder))
}

// tarOf archives the files of a folder, sorted by name.
func (r release) tarOf(folder fs.FS) ([]byte, error) {
	var content bytes.Buffer
	archive := tar.NewWriter(&content)
	err := fs.WalkDir(folder, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(folder, path)
		if err != nil {
			return err
		}
		return r.addBytes(archive, path, 0o644, text)
	})
	if err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}

// dockerManifest lists an image per platform. The format has no index, so each image has a tag of
// its own.
func (r release) dockerManifest(index container.ImageIndex) ([]byte, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var images tarball.Manifest
	for _, described := range manifest.Manifests {
		image, err := index.Image(described.Digest)
		if err != nil {
			return nil, err
		}
		parts, err := image.Manifest()
		if err != nil {
			return nil, err
		}
		one := tarball.Descriptor{
			Config:   blob(parts.Config.Digest),
			RepoTags: []string{"sluice:" + r.version + "-" + described.Platform.Architecture},
		}
		for _, layer := range parts.Layers {
			one.Layers = append(one.Layers, blob(layer.Digest))
		}
		images = append(images, one)
	}
	return json.Marshal(images)
}

// blob returns the path of a blob in the layout.
func blob(digest container.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }
