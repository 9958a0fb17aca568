package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	oci "github.com/opencontainers/image-spec/specs-go/v1"
)

// layout is an OCI image layout that grows by an image a platform.
// https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md
type layout struct {
	made   release
	blobs  []blob
	images []oci.Descriptor
	docker []dockerImage
}

type blob struct {
	digest digest.Digest
	text   []byte
}

// dockerImage is a line of manifest.json, by which "docker load" finds images where Docker does not keep them in
// containerd. It knows no index: each platform has a tag of its own there.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func newLayout(made release) *layout { return &layout{made: made} }

// annotations are what registries and people are told. https://specs.opencontainers.org/image-spec/annotations/
func (l *layout) annotations() map[string]string {
	return map[string]string{
		oci.AnnotationTitle:       "sluice",
		oci.AnnotationDescription: "Pushed metrics (StatsD, HTTP) for the Horizontal Pod Autoscaler",
		oci.AnnotationVersion:     l.made.version,
		oci.AnnotationRevision:    l.made.commit,
		oci.AnnotationCreated:     l.made.created.Format(time.RFC3339),
		oci.AnnotationLicenses:    "Apache-2.0",
		oci.AnnotationSource:      "https://github.com/sluice-metrics/sluice",
	}
}

// add packs one platform's binary.
func (l *layout) add(p program, license string) error {
	content, err := newLayer(p, license, l.made.created)
	if err != nil {
		return err
	}
	packed := l.put(oci.MediaTypeImageLayerGzip, content.packed)
	config, err := l.putJSON(oci.MediaTypeImageConfig, l.config(p, content.diffID))
	if err != nil {
		return err
	}
	image, err := l.putJSON(oci.MediaTypeImageManifest, oci.Manifest{
		Versioned:   specs.Versioned{SchemaVersion: 2},
		MediaType:   oci.MediaTypeImageManifest,
		Config:      config,
		Layers:      []oci.Descriptor{packed},
		Annotations: l.annotations(),
	})
	if err != nil {
		return err
	}
	image.Platform = &oci.Platform{OS: p.os, Architecture: p.architecture}
	l.images = append(l.images, image)
	l.docker = append(l.docker, dockerImage{
		Config:   path(config.Digest),
		RepoTags: []string{fmt.Sprintf("sluice:%s-%s", l.made.version, p.architecture)},
		Layers:   []string{path(packed.Digest)},
	})
	return nil
}

func (l *layout) config(p program, diffID digest.Digest) oci.Image {
	return oci.Image{
		Created:  &l.made.created,
		Platform: oci.Platform{OS: p.os, Architecture: p.architecture},
		Config: oci.ImageConfig{
			User:       fmt.Sprintf("%d:%d", user, user),
			Entrypoint: []string{"/sluice"},
			Cmd:        []string{"serve"},
			WorkingDir: "/",
			ExposedPorts: map[string]struct{}{
				"8125/udp": {}, "8125/tcp": {}, "9091/tcp": {}, "6443/tcp": {}, "8080/tcp": {},
			},
			Labels: l.annotations(),
		},
		RootFS:  oci.RootFS{Type: "layers", DiffIDs: []digest.Digest{diffID}},
		History: []oci.History{{Created: &l.made.created, CreatedBy: "make image"}},
	}
}

// tar is the layout as a file.
func (l *layout) tar() ([]byte, error) {
	index, err := l.putJSON(oci.MediaTypeImageIndex, oci.Index{
		Versioned:   specs.Versioned{SchemaVersion: 2},
		MediaType:   oci.MediaTypeImageIndex,
		Manifests:   l.images,
		Annotations: l.annotations(),
	})
	if err != nil {
		return nil, err
	}
	index.Annotations = map[string]string{
		oci.AnnotationRefName:      l.made.version,
		"io.containerd.image.name": "docker.io/library/sluice:" + l.made.version,
	}
	files := []struct {
		name    string
		content any
	}{
		{oci.ImageLayoutFile, oci.ImageLayout{Version: oci.ImageLayoutVersion}},
		{oci.ImageIndexFile, oci.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeImageIndex, Manifests: []oci.Descriptor{index},
		}},
		{"manifest.json", l.docker},
	}
	var text bytes.Buffer
	archive := tar.NewWriter(&text)
	for _, file := range files {
		content, err := json.Marshal(file.content)
		if err != nil {
			return nil, err
		}
		if err := add(archive, file.name, 0o644, content, l.made.created); err != nil {
			return nil, err
		}
	}
	for _, b := range l.blobs {
		if err := add(archive, path(b.digest), 0o644, b.text, l.made.created); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil { // it writes the end, without which the archive is cut short
		return nil, err
	}
	return text.Bytes(), nil
}

// path is where a blob lies in the layout.
func path(d digest.Digest) string { return "blobs/" + d.Algorithm().String() + "/" + d.Encoded() }

func (l *layout) put(mediaType string, text []byte) oci.Descriptor {
	b := blob{digest.FromBytes(text), text}
	l.blobs = append(l.blobs, b)
	return oci.Descriptor{MediaType: mediaType, Digest: b.digest, Size: int64(len(text))}
}

func (l *layout) putJSON(mediaType string, content any) (oci.Descriptor, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return oci.Descriptor{}, err
	}
	return l.put(mediaType, text), nil
}
