package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	container "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	oci "github.com/opencontainers/image-spec/specs-go/v1"
)

// user is the unprivileged user of the image, by number: a kubelet cannot tell that a name is not
// root.
const user = 65532

// annotations describe the image, the index and the configuration.
// https://specs.opencontainers.org/image-spec/annotations/
func (r release) annotations() map[string]string {
	return map[string]string{
		oci.AnnotationTitle:       "sluice",
		oci.AnnotationDescription: "Pushed metrics (StatsD, HTTP) for the Horizontal Pod Autoscaler",
		oci.AnnotationVersion:     r.version,
		oci.AnnotationRevision:    r.commit,
		oci.AnnotationCreated:     r.created.Format(time.RFC3339),
		oci.AnnotationLicenses:    "Apache-2.0",
		oci.AnnotationSource:      "https://github.com/sluice-metrics/sluice",
	}
}

// index returns the index of the images of all platforms.
func (r release) index(programs []program) (container.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		image, err := r.image(p)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", p.os, p.architecture, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: container.Descriptor{
			MediaType: types.OCIManifestSchema1, Platform: &container.Platform{OS: p.os, Architecture: p.architecture},
		}})
	}
	return mutate.Annotations(index, r.annotations()).(container.ImageIndex), nil
}

// image returns the image of one platform.
func (r release) image(p program) (container.Image, error) {
	content, err := r.layer(p)
	if err != nil {
		return nil, err
	}
	image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON), &container.ConfigFile{
		Created: container.Time{Time: r.created}, OS: p.os, Architecture: p.architecture,
		Config: container.Config{
			User:       fmt.Sprintf("%d:%d", user, user),
			Entrypoint: []string{"/sluice"},
			Cmd:        []string{"serve"},
			WorkingDir: "/",
			ExposedPorts: map[string]struct{}{
				"8125/udp": {}, "8125/tcp": {}, "9091/tcp": {}, "6443/tcp": {}, "8080/tcp": {},
			},
			Labels: r.annotations(),
		},
		RootFS: container.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: content, History: container.History{Created: container.Time{Time: r.created}, CreatedBy: "make image"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, r.annotations()).(container.Image), nil
}

// layer returns the layer with the binary, the documents, and a data folder that the user may
// write.
func (r release) layer(p program) (container.Layer, error) {
	var content bytes.Buffer
	archive := tar.NewWriter(&content)
	folder := r.header("data/", 0o700, 0)
	folder.Typeflag, folder.Uid, folder.Gid = tar.TypeDir, user, user
	if err := archive.WriteHeader(folder); err != nil {
		return nil, err
	}
	for _, document := range r.documents {
		if err := r.addFile(archive, filepath.Base(document), 0o644, document); err != nil {
			return nil, err
		}
	}
	if err := r.addFile(archive, "sluice", 0o755, p.path); err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
}

// header returns a tar header that depends only on the arguments and the release: no owner's name,
// no time of this machine.
func (r release) header(name string, mode, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size, ModTime: r.created,
		Format: tar.FormatUSTAR}
}

func (r release) addFile(archive *tar.Writer, name string, mode int64, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return r.addBytes(archive, name, mode, content)
}

func (r release) addBytes(archive *tar.Writer, name string, mode int64, content []byte) error {
	if err := archive.WriteHeader(r.header(name, mode, int64(len(content)))); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}
