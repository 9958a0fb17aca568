package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
)

// archive returns the archive of one platform: the binary and the licences.
func (r *release) archive(p program) ([]byte, error) {
	return packed(func(archive *tar.Writer) error {
		for _, file := range []struct {
			name, path string
			mode       int64
		}{
			{"LICENSE", r.license, 0o644}, {"THIRD_PARTY_LICENSES", r.notices, 0o644}, {p.name, p.path, 0o755},
		} {
			content, err := os.ReadFile(file.path)
			if err != nil {
				return err
			}
			if err := r.addTo(archive, file.name, file.mode, content); err != nil {
				return err
			}
		}
		return nil
	})
}

// repackedChart returns the packaged chart with the release's time in every header: Helm copies the
// times of the checkout.
func (r *release) repackedChart() ([]byte, error) {
	file, err := os.Open(r.chart)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	return packed(func(archive *tar.Writer) error {
		for chart := tar.NewReader(unpacked); ; {
			header, err := chart.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			content, err := io.ReadAll(chart)
			if err != nil {
				return err
			}
			if err := r.addTo(archive, header.Name, 0o644, content); err != nil {
				return err
			}
		}
	})
}

// addTo adds a file with a header that depends only on the arguments and the release.
func (r *release) addTo(archive *tar.Writer, name string, mode int64, content []byte) error {
	if err := archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: r.created, Format: tar.FormatUSTAR,
	}); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}

// packed returns the files that fill archives as a tar.gz.
func packed(fill func(*tar.Writer) error) ([]byte, error) {
	var content bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&content, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(compressed)
	if err := errors.Join(fill(archive), archive.Close(), compressed.Close()); err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}
