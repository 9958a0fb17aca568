package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/opencontainers/go-digest"
)

// user is who Sluice runs as in its image: nobody in particular, and not root.
const user = 65532

// layer is the one layer of an image.
type layer struct {
	packed []byte        // tar, gzip
	diffID digest.Digest // of the tar before gzip
}

// newLayer holds the binary, the licence, and a data folder that the user may write.
func newLayer(p program, license string, created time.Time) (layer, error) {
	binary, err := os.ReadFile(p.path)
	if err != nil {
		return layer{}, err
	}
	terms, err := os.ReadFile(license)
	if err != nil {
		return layer{}, err
	}
	var unpacked bytes.Buffer
	archive := tar.NewWriter(&unpacked)
	folder := entry("data/", 0o700, 0, created)
	folder.Typeflag, folder.Uid, folder.Gid = tar.TypeDir, user, user
	if err := archive.WriteHeader(folder); err != nil {
		return layer{}, err
	}
	if err := add(archive, "LICENSE", 0o644, terms, created); err != nil {
		return layer{}, err
	}
	if err := add(archive, "sluice", 0o755, binary, created); err != nil {
		return layer{}, err
	}
	if err := archive.Close(); err != nil {
		return layer{}, err
	}
	packed, err := pack(unpacked.Bytes())
	return layer{packed: packed, diffID: digest.FromBytes(unpacked.Bytes())}, err
}

// entry is a tar header that depends on nothing but its arguments: no owner's name, no time of this machine.
func entry(name string, mode fs.FileMode, size int, created time.Time) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(mode), Size: int64(size), ModTime: created, Format: tar.FormatUSTAR}
}

func add(archive *tar.Writer, name string, mode fs.FileMode, text []byte, created time.Time) error {
	if err := archive.WriteHeader(entry(name, mode, len(text), created)); err != nil {
		return err
	}
	_, err := archive.Write(text)
	return err
}

func pack(text []byte) ([]byte, error) {
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(writer, bytes.NewReader(text)); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
